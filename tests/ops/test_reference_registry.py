"""What holds for every operator: a generator, a rule that agrees with the reference, a cost."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from cuvil.errors import InvalidModelError
from cuvil.ir.core import UNKNOWN
from cuvil.ir.types import TensorType
from cuvil.ops.base import ShapeContext
from cuvil.ops.registry import registry
from cuvil.ops.typing import Inference
from cuvil.sym.expr import evaluate, maximum, minimum
from tests.ops.checks import infer, run, types_of
from tests.ops.generators import GENERATORS, cases
from tests.ops.values import Case

OPS = sorted(registry())

# Operands whose size, along some dimension, must be a number: kernels and depths of indices.
STATIC = {("conv", 1), ("conv_transpose", 1), ("gather_nd", 1), ("scatter_nd", 1)}
STATIC |= {("tree_ensemble", i) for i in range(6)}  # features, and tables that fit each other
# Operands that broadcast: a symbol there is taken to be another size than 1.
BROADCAST = {("broadcast", 0), ("attention", 3)}
# Heads that are shared between queries must be numbers; symbols for them must be equal.
HEADS = {
    ("attention", 0, 1), ("attention", 1, 1), ("attention", 2, 1),
    ("roi_align", 1, 1), ("roi_max_pool", 1, 1),
}  # fmt: skip


def _short(name: str) -> str:
    return name.removeprefix("cuvil.")


def test_every_operator_has_a_generator_and_no_other() -> None:
    assert {_short(name) for name in OPS} == set(GENERATORS)


@pytest.mark.parametrize("name", OPS)
def test_inferred_types_are_those_of_the_reference(name: str) -> None:
    count = 0
    for case in cases(name, np.random.default_rng(1)):
        run(_short(name), case)
        count += 1
    assert count >= 3


@pytest.mark.parametrize("name", OPS)
def test_cost_is_a_number_for_static_shapes(name: str) -> None:
    op = registry()[name]
    for case in islice(cases(name, np.random.default_rng(2)), 20):
        cost = op.cost(types_of(case), infer(_short(name), case), case.attrs)
        assert isinstance(cost.flops, int) and cost.flops >= 0


def _check_symbolic(name: str, case: Case, chosen: set[tuple[int, int]]) -> bool:
    """Infer with the chosen (operand, axis) sizes as symbols: at their values the result types and
    all constraints must be right. False where the rule refuses an operand of STATIC."""
    context = ShapeContext()
    table: dict[str, int] = {}
    types = []
    for i, t in enumerate(types_of(case)):
        dims = list(t.shape)
        for axis, size in enumerate(t.shape):
            if (i, axis) in chosen:
                assert isinstance(size, int)
                dims[axis] = context.new_symbol("d")
                table[str(dims[axis])] = size
        types.append(TensorType(tuple(dims), t.dtype))
    try:
        inferred = Inference(context)(name, types, case.attrs, UNKNOWN)
    except InvalidModelError:
        if any((_short(name), i) in STATIC for i, _ in chosen):
            return False
        raise
    for got, want in zip(inferred, infer(_short(name), case), strict=True):
        shape = tuple(evaluate(d, table) for d in got.shape)
        assert (shape, got.dtype) == (want.shape, want.dtype), f"{name}{case}: {got}"
    for constraint in context.constraints:
        assert constraint.holds(table), f"{name}{case}: {constraint} ({constraint.origin})"
    return True


def _places(name: str, case: Case) -> set[tuple[int, int]]:
    """The (operand, axis) whose size may be a symbol."""
    return {
        (i, axis)
        for i, x in enumerate(case.arrays)
        for axis, size in enumerate(x.shape)
        if not ((name, i) in BROADCAST and size == 1) and (name, i, axis) not in HEADS
    }


@pytest.mark.parametrize("name", [n for n in OPS if registry()[n].operands[1] != 0])
def test_symbolic_sizes_give_the_same_types(name: str) -> None:
    checked = 0
    for case in islice(cases(name, np.random.default_rng(3)), 40):
        places = _places(_short(name), case)
        free = {p for p in places if (_short(name), p[0]) not in STATIC}
        checked += _check_symbolic(name, case, free)
        for place in places:
            checked += _check_symbolic(name, case, {place})
    assert checked


def test_a_dimension_cut_at_its_own_size_is_that_size() -> None:
    """min(n, 512) == n says when it holds, and later types have n."""
    context = ShapeContext()
    n = context.new_symbol("n")
    assert context.same(minimum(n, 512), n, "why") == n
    assert [str(c).split(" (")[0] for c in context.constraints] == ["n <= 512"]
    assert context.same(n, minimum(n, 512), "again") == n
    assert len(context.constraints) == 1
    assert context.same(maximum(n, 2), n, "why") == n
    assert str(context.constraints[1]).startswith("n >= 2")
