"""Sums and products of wide integers, exact modulo their width.

ONNX Runtime's ReduceSum and ReduceProd go through floats, which have no digit for what lies beyond
2**53; its MatMul and Mul wrap as integers do.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.frontends.onnx_export.order import filled, graph_of
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.ir.types import Shape, TensorType
from cuvil.sym.expr import product


def exact_sum(scope: Scope, name: str, type: TensorType, axes: Sequence[int]) -> str:
    """The sum over ``axes``, which are dropped: a product with ones."""
    kept = [a for a in range(type.rank) if a not in axes]
    count = product(type.shape[a] for a in axes)
    rows = _moved(scope, name, type, [*kept, *axes], (*_sizes(type, kept), count))
    return scope.node("MatMul", rows, filled(scope, 1, TensorType((count,), type.dtype)))


def exact_product(scope: Scope, name: str, type: TensorType, axes: Sequence[int]) -> str:
    """The product over ``axes``, which are dropped: one factor after the other."""
    kept = [a for a in range(type.rank) if a not in axes]
    state_type = TensorType(_sizes(type, kept), type.dtype)
    count = product(type.shape[a] for a in axes)
    factors = _moved(scope, name, type, [*axes, *kept], (count, *state_type.shape))
    if not scope.facts.positive(count):  # a Scan of nothing fails in ONNX Runtime
        one = filled(scope, 1, TensorType((1, *state_type.shape), type.dtype))
        factors = scope.node("Concat", one, factors, axis=0)
    inner = scope.inner()
    state, factor = (scope.names.fresh(n) for n in ("state", "factor"))
    body = graph_of(
        inner, "step", [(state, state_type), (factor, state_type)],
        [(inner.node("Mul", state, factor), state_type)],
    )  # fmt: skip
    first = filled(scope, 1, state_type)
    return scope.node("Scan", first, factors, body=body, num_scan_inputs=1)


def _sizes(type: TensorType, axes: Sequence[int]) -> Shape:
    return tuple(type.shape[a] for a in axes)


def _moved(
    scope: Scope, name: str, type: TensorType, order: Sequence[int], shape: Shape
) -> str:
    """The axes in ``order``, those that are reduced as one."""
    if list(order) != list(range(type.rank)):
        name = scope.node("Transpose", name, perm=list(order))
    if len(shape) == type.rank:
        return name
    return scope.node("Reshape", name, scope.shape(shape), allowzero=1)
