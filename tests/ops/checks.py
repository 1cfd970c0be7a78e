"""Runs an operator's own rule and reference, and compares with an independent result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuvil.ir.core import UNKNOWN
from cuvil.ir.types import TensorType, dtype_of
from cuvil.ops.base import ShapeContext
from cuvil.ops.registry import registry
from cuvil.ops.typing import Inference
from tests.ops.generators import cases
from tests.ops.values import Array, Case

Oracle = Callable[[Case], "Sequence[Any] | None"]

_RELATIVE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}


def types_of(case: Case) -> list[TensorType]:
    """The static types of the operands."""
    return [TensorType(a.shape, dtype_of(a.dtype)) for a in case.arrays]


def infer(name: str, case: Case) -> list[TensorType]:
    """Result types by the operator's rule, attributes checked against its schema."""
    return Inference(ShapeContext())(f"cuvil.{name}", types_of(case), case.attrs, UNKNOWN)


def run(name: str, case: Case) -> list[Array]:
    """The reference's results; their shapes and dtypes must be those that were inferred."""
    types = infer(name, case)
    results = registry()[f"cuvil.{name}"].reference(case.arrays, case.attrs, types)
    assert len(results) == len(types), f"{name}{case}"
    for out, t in zip(results, types, strict=True):
        assert out.shape == t.shape, f"{name}{case}: {out.shape}, inferred {t}"
        assert out.dtype == t.dtype.numpy, f"{name}{case}: {out.dtype}, inferred {t}"
    return results


def assert_matches(got: Array, want: Any, what: str, scale: float = 1.0) -> None:
    """Equal where exact (integers, bools, ``scale`` 0), else close for the dtype; NaN is NaN."""
    want = np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if got.dtype.kind != "f" or scale == 0:
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    relative = _RELATIVE[got.dtype.name] * scale
    finite = want[np.isfinite(want)].astype(np.float64)
    floor = relative * min(1.0, float(np.max(np.abs(finite), initial=0.0)))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=relative, atol=floor, err_msg=what
        )


def check_against(name: str, oracle: Oracle, seed: int = 0, scale: float = 1.0) -> None:
    """Every generated case that the oracle knows (at least one) gives the oracle's result."""
    known = 0
    for case in cases(name, np.random.default_rng(seed)):
        with np.errstate(all="ignore"):
            wanted = oracle(case)
        if wanted is None:
            continue
        known += 1
        got = run(name, case)
        assert len(got) == len(wanted), f"{name}{case}"
        for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
            assert_matches(a, b, f"{name}{case}, result {k}", scale)
    assert known, f"no case of {name} has an independent result"
