"""References give the same for operands of any strides: the interpreter hands on views."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.ops.registry import registry
from tests.ops.checks import infer
from tests.ops.generators import GENERATORS, cases
from tests.ops.values import Array

_CASES = 12


def _strided(array: Array) -> list[Array]:
    """The same elements in column order, behind negative strides, and with gaps."""
    wide = np.repeat(array[..., None], 2, axis=-1)
    flip = (slice(None, None, -1),) * array.ndim
    back = np.array(array[flip], order="C")
    return [np.array(array, order="F"), back[flip], wide[..., 0]]


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_reference_reads_any_strides(name: str) -> None:
    rule = registry()[f"cuvil.{name}"].reference
    for number, case in enumerate(cases(name, np.random.default_rng(5))):
        if number == _CASES:
            break
        types = infer(name, case)
        want = rule(case.arrays, case.attrs, types)
        for arrays in zip(*(_strided(np.asarray(a)) for a in case.arrays)):
            got = rule(list(arrays), case.attrs, types)
            for a, b in zip(got, want, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape, f"{name}{case}"
                # Sums in another order may round otherwise; a lost write is far off.
                exact = a.dtype.kind in "iub" or registry()[f"cuvil.{name}"].tolerance == "exact"
                _assert_same(a, b, exact, f"{name}{case}")


def _assert_same(a: Array, b: Array, exact: bool, what: str) -> None:
    if exact or a.dtype.kind not in "f":
        same = (a == b) | ((a != a) & (b != b))
        assert np.all(same), what
        return
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            a.astype(np.float64), b.astype(np.float64), rtol=2e-3, atol=1e-3, err_msg=what
        )


def test_a_flat_view_that_is_a_copy_would_be_seen() -> None:
    data = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    copy = np.array(np.array(data, order="F"))
    copy.reshape(-1)[0] = 7
    with pytest.raises(AssertionError):
        _assert_same(copy, np.where(data == 0, 7, data).astype(np.float32), True, "copy")
