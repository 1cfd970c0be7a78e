"""Operators in C against their references: a few calls of each, many more in the slow tier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.ops.registry import registry
from tests.codegen.c_build import generate_c, run_c
from tests.ops.agreement import disagreement
from tests.ops.checks import run
from tests.ops.compiled import Batch, Call
from tests.ops.generators import cases
from tests.ops.values import case

# No kernel in C, or the calls bind sizes by their data.
REFUSED = frozenset({
    "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "cholesky", "couple_pairs",
    "cummax", "cummin", "eigh", "erfcx", "erfinv", "exchanges_to_order", "gcd",
    "hermite_h", "hermite_he", "householder_product", "igamma", "igammac", "laguerre", "ldl_factor",
    "ldl_solve", "legendre", "lgamma", "logcumsumexp", "lu_factor", "matmul_blocks", "matrix_exp",
    "max_pool_indices", "nms", "positions", "qr_factor", "roi_align", "roi_max_pool", "row_order",
    "sizes", "svd", "tree_ensemble",
    "triangular_solve", "zeta",
})  # fmt: skip
_ALL = sorted({name.removeprefix("cuvil.") for name in registry()} - REFUSED)
_WEIGHTED = ("matmul", "conv", "conv_transpose")
_A_LIBRARY = 150
_SMALL = pytest.mark.parametrize("small", [False, True], ids=["fast", "small"])


def _calls(name: str, count: int) -> list[Call]:
    """Some of the calls that C has a kernel for; at least one."""
    found = list(cases(name, np.random.default_rng(1)))
    calls = [Call(name, c) for c in found]
    if name in _WEIGHTED:
        calls += [Call(name, c, (1,)) for c in found]
    kept = []
    for i in np.random.default_rng(4).permutation(len(calls)):
        if _refusals(calls[i]):
            continue
        kept.append(calls[i])
        if len(kept) == count:
            break
    assert kept, f"no call of {name} has a kernel"
    return kept


def _check(calls: Sequence[Call], small: bool = False) -> None:
    wrong: list[str] = []
    for start in range(0, len(calls), _A_LIBRARY):
        batch = Batch(tuple(calls[start : start + _A_LIBRARY]))
        results = iter(run_c(batch.module(), batch.inputs(), small))
        for call in batch.calls:
            for k, want in enumerate(run(call.name, call.case)):
                problem = disagreement(call.name, call.case, k, next(results), want)
                wrong += [problem] if problem else []
    assert not wrong, f"{len(wrong)} results are wrong:\n" + "\n".join(wrong[:20])


@_SMALL
def test_a_call_of_each_operator_agrees(small: bool) -> None:
    _check([call for name in _ALL for call in _calls(name, 1)], small)


@pytest.mark.slow
@_SMALL
@pytest.mark.parametrize("part", range(6))
def test_many_calls_of_each_operator_agree(part: int, small: bool) -> None:
    _check([call for name in _ALL[part::6] for call in _calls(name, 40)], small)


@pytest.mark.parametrize("name", sorted(REFUSED - {"sizes"}))
def test_what_has_no_kernel_is_refused(name: str) -> None:
    calls = [Call(name, c) for c in cases(name, np.random.default_rng(1))]
    if name == "matmul_blocks":
        calls = [Call(name, c.case, tuple(range(1, len(c.case.arrays)))) for c in calls]
    # Calls without elements need no kernel.
    nodes = next(found for call in calls if (found := _refusals(call)))
    assert all("the target c" in node.reason for node in nodes)


def _refusals(call: Call) -> list[UnsupportedNode]:
    try:
        generate_c(Batch((call,)).module())
    except UnsupportedOpError as error:
        return list(error.nodes)
    return []


@pytest.mark.parametrize(
    "shapes",
    [((2, 0), (0, 4)), ((3, 2, 0), (0, 4)), ((0, 4), (4, 3)), ((2, 4), (4, 0))],
)
def test_a_product_with_empty_weights(shapes: tuple[tuple[int, ...], ...]) -> None:
    """A sum over nothing is 0, and no rows or columns are no elements."""
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    batch = Batch((Call("matmul", case(*arrays), (1,)),))
    for small in (False, True):
        (found,) = run_c(batch.module(), batch.inputs(), small)
        np.testing.assert_array_equal(found, np.matmul(*arrays))
