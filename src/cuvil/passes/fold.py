"""Constant folding and shape values: what is known at compile time is computed then."""

from __future__ import annotations

import numpy as np

from cuvil.analysis.shape_values import ShapeValues
from cuvil.errors import CuvilError
from cuvil.ir.core import Op, Value, Weight
from cuvil.ops.registry import registry
from cuvil.passes.matching import constant_of, spread_constant
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule
from cuvil.sym.expr import evaluate

# Folding may not make a constant that is this much larger than what it was made of.
GROWTH_LIMIT_BYTES = 1 << 16
SYMBOLIC_LIMIT = 64

# A broadcast stays one: readers see the small constant behind it.
_NEVER = ("constant", "dims", "func.return", "yield", "fused", "iota", "broadcast", "materialize")


def _fold(op: Op, context: Context) -> Outcome:
    """f(constants) -> constant, when that does not grow the weights."""
    if op.regions or not op.results:
        return Refusal("it has a region or no result")
    arrays = []
    for operand in op.operands:
        array = constant_of(operand)
        if array is None:
            return Refusal("an operand is not constant")
        arrays.append(array)
    if not all(r.type.is_static for r in op.results):
        return Refusal("the result has a symbolic dimension")
    size = sum(evaluate(r.type.elements, {}) * r.type.dtype.size for r in op.results)
    if size > GROWTH_LIMIT_BYTES and size > 2 * sum(a.nbytes for a in arrays):
        return Refusal("the constant would be much larger than its operands")

    try:
        outs = registry()[op.name].reference(arrays, op.attrs, [r.type for r in op.results])
    except (CuvilError, ArithmeticError, IndexError, ValueError):
        return Refusal("the operands are refused, as they will be at run time")

    def action(rewriter: Rewriter) -> list[Value]:
        return [
            rewriter.value("constant", value=Weight(np.asarray(out), op.loc.name)) for out in outs
        ]

    return action


def _fold_spread(op: Op, context: Context) -> Outcome:
    """map(broadcast(c), broadcast(d)) -> broadcast(map(c, d)), for constants c and d"""
    arrays = [spread_constant(v) for v in op.operands]
    if any(a is None for a in arrays):
        return Refusal("an operand is not constant")
    known = [a for a in arrays if a is not None]
    shape = np.broadcast_shapes(*(a.shape for a in known))
    if int(np.prod(shape)) > sum(a.size for a in known) + 1024:
        return Refusal("the constant would be much larger than its operands")

    def action(rewriter: Rewriter) -> list[Value]:
        whole = [np.ascontiguousarray(np.broadcast_to(a, shape)) for a in known]
        types = [op.type.with_shape(shape)]
        (out,) = registry()[op.name].reference(whole, op.attrs, types)
        made = rewriter.value("constant", value=Weight(np.asarray(out), op.loc.name))
        if made.type.shape == op.type.shape:
            return [made]
        return [rewriter.value("broadcast", [made], shape=op.type.shape)]

    return action


def _empty_result(op: Op, context: Context) -> Outcome:
    """f(...) -> broadcast(0), when no result has any element"""
    if op.regions or not op.results:
        return Refusal("it has a region or no result")
    if not all(r.type.is_empty for r in op.results):
        return Refusal("a result has elements, or may have")

    def action(rewriter: Rewriter) -> list[Value]:
        made = []
        for r in op.results:
            zero = rewriter.value("constant", value=Weight(np.zeros((), r.type.dtype.numpy)))
            made.append(rewriter.value("broadcast", [zero], shape=r.type.shape))
        return made

    return action


def _shape_value(op: Op, context: Context) -> Outcome:
    """integer arithmetic on dims -> dims"""
    result = op.results[0]
    if not result.type.dtype.is_integer or result.type.rank > 1 or len(op.results) != 1:
        return Refusal("it is not a small integer vector")
    if not result.type.is_static or evaluate(result.type.elements, {}) > SYMBOLIC_LIMIT:
        return Refusal("it is not a small integer vector")
    known = context.memo.setdefault("shape values", ShapeValues(context.facts))
    found = known.of(result)
    if found is None:
        return Refusal("its value depends on data")
    values = tuple(found.reshape(-1))
    scalar = result.type.rank == 0
    dtype = result.type.dtype
    limits = np.iinfo(dtype.numpy)
    if not all(limits.min <= v <= limits.max for v in values if isinstance(v, int)):
        return Refusal("an element wraps")

    def action(rewriter: Rewriter) -> list[Value]:
        if all(isinstance(v, int) for v in values):
            array = np.array(values, dtype=dtype.numpy).reshape(found.shape)
            return [rewriter.value("constant", value=Weight(array))]
        made = rewriter.value("dims", values=values, scalar=scalar or None)
        if made.type.dtype != dtype:
            made = rewriter.value("cast", [made], dtype=dtype)
        return [made]

    return action


_FOLDABLE = tuple(
    name.rsplit(".", 1)[-1] for name in registry() if name.rsplit(".", 1)[-1] not in _NEVER
)
_INTEGER_CHAIN = (
    "add", "sub", "mul", "div", "floordiv", "mod", "fmod", "max", "min", "neg", "reshape",
    "slice", "concat", "gather", "select", "reduce_sum", "reduce_prod",
)  # fmt: skip

_MAPS = tuple(
    d.name.rsplit(".", 1)[-1]
    for d in registry().values()
    if d.fusion == "map" and not d.name.endswith("materialize")
)

RULES: list[Rule] = [
    Rule("empty-result", (*_FOLDABLE, "iota"), _empty_result),
    Rule("fold-constant", _FOLDABLE, _fold),
    Rule("fold-spread-constants", _MAPS, _fold_spread),
    Rule("fold-shape-value", _INTEGER_CHAIN, _shape_value),
]

