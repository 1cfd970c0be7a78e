"""Every operator as ONNX, over the calls that kernels are tested with, against its reference."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.onnx_export.tables import REFUSALS, WRITERS
from cuvil.ir.types import dtype_of
from cuvil.ops.registry import registry
from cuvil.passes.stages import DECOMPOSED
from tests.ops.checks import run
from tests.ops.compiled import Batch, Call
from tests.ops.generators import cases
from tests.ops.values import Case
from tests.targets.onnx_calls import close, onnx_of, run_here, tamed

# Operators that ONNX has no spelling for.
REFUSED = frozenset({
    "erfc", "erfcx", "zeta", "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w",
    "hermite_h", "hermite_he", "laguerre", "legendre", "lgamma", "erfinv", "igamma", "igammac",
    "gcd", "couple_pairs", "lu_factor", "exchanges_to_order", "cholesky", "triangular_solve",
    "qr_factor", "householder_product", "eigh", "matrix_exp", "svd", "ldl_factor", "ldl_solve",
    "tree_ensemble",
})  # fmt: skip
# Where ONNX leaves it to the runtime: which of NaN and numbers is larger, infinite regions, casts
# out of range.
TAMED = {
    "cast": "small", "argmax": "finite", "argmin": "finite", "max_pool": "finite",
    "max_pool_indices": "finite", "reduce_max": "finite", "reduce_min": "finite",
    "roi_align": "finite", "roi_max_pool": "small", "floordiv": "small", "mod": "small",
}  # fmt: skip
# What ONNX's reference evaluator (1.23) has wrong, or leaves out: it is asked where ONNX Runtime
# has no kernel for a type.
UNREFERABLE = frozenset({"avg_pool", "lrn", "lstm", "gru", "rnn", "conv_transpose"})
# Types whose codes the cases make up, bits that no element has among them; and rounding of f8e8m0.
NO_CASTS = frozenset({"f8e8m0fnu", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn", "i4", "u4", "i2", "u2"})
A_KIND = 4  # calls of an operator with operands of the same dtypes
GROUPS = 8

_ALL = sorted(name.removeprefix("cuvil.") for name in registry() if name != "cuvil.sizes")
_WRITTEN = [name for name in _ALL if name not in REFUSED]


def test_every_operator_is_written_or_refused() -> None:
    decomposed = set(DECOMPOSED) - set(WRITERS)
    assert set(_ALL) - set(WRITERS) - decomposed == set(REFUSED)
    assert set(REFUSALS) <= set(WRITERS)


def _is_open(case: Case) -> bool:
    """Whether a cast has values out of range, which ONNX leaves open."""
    source, to = dtype_of(case.arrays[0].dtype), case.attrs["dtype"]
    return bool(NO_CASTS & {source.name, to.name}) or (source.is_narrow and to.is_integer)


def _kinds(name: str) -> list[list[Case]]:
    """Some calls for each combination of dtypes."""
    kinds: dict[tuple[str, ...], list[Case]] = defaultdict(list)
    for case in cases(name, np.random.default_rng(1)):
        if name in TAMED:
            case = Case(tuple(tamed(case.arrays, TAMED[name])), case.attrs)
        if name == "cast" and _is_open(case):
            continue
        if name == "reduce_mean" and any(a.size == 0 for a in case.arrays):
            continue  # ONNX Runtime gives 0 for the mean of nothing
        kinds[(*(a.dtype.name for a in case.arrays), str(case.attrs.get("dtype")))].append(case)
    rng = np.random.default_rng(4)
    return [
        [found[i] for i in sorted(rng.permutation(len(found))[:A_KIND])]
        for found in kinds.values()
    ]


def _check(name: str, calls: list[Case], folder: Path) -> tuple[list[str], int]:
    """What is wrong, and how many calls could be run."""
    batch = Batch(tuple(Call(name, c) for c in calls))
    try:
        model = onnx_of(batch.module())
    except UnsupportedOpError:
        if len(calls) > 1:
            parts = [_check(name, [c], folder) for c in calls]
            return [w for wrong, _ in parts for w in wrong], sum(n for _, n in parts)
        return [], 0
    outputs = run_here(model, batch.inputs(), folder, name not in UNREFERABLE)
    if outputs is None and len(calls) > 1:
        parts = [_check(name, [c], folder) for c in calls]
        return [w for wrong, _ in parts for w in wrong], sum(n for _, n in parts)
    if outputs is None:
        return [], 0
    expected = [(c, want) for c in calls for want in run(name, c)]
    wrong = [
        f"{name}{c}: {got!r}, not {want!r}"[:600]
        for got, (c, want) in zip(outputs, expected, strict=True)
        if not close(got, want)
    ]
    return wrong, len(calls)


@pytest.mark.parametrize("part", range(GROUPS))
def test_calls_agree_with_the_reference(part: int, tmp_path: Path) -> None:
    wrong: list[str] = []
    for name in _WRITTEN[part::GROUPS]:
        ran = 0
        for calls in _kinds(name):
            found, count = _check(name, calls, tmp_path)
            wrong += found
            ran += count
        if not ran:
            wrong.append(f"{name}: no call was run")
    assert not wrong, f"{len(wrong)} results are wrong:\n" + "\n".join(wrong[:10])


def test_the_comparison_can_fail() -> None:
    one = np.ones(3, np.float32)
    assert close(one, one) and not close(one, one + np.float32(1e-3))
    assert not close(one, one.astype(np.float64)) and not close(one, np.ones(4, np.float32))
    assert not close(np.array([np.nan]), np.array([1.0]))
