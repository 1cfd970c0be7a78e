"""What one call of a kernel costs: operations, and bytes that have to move, over the symbols."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cuvil.analysis.contraction_views import is_depthwise
from cuvil.ir.core import Op, Value
from cuvil.ops.registry import registry
from cuvil.sym.expr import Dim, add, floordiv, minimum, mul

# Movements that may leave out elements of their first operand.
_PARTIAL = ("slice", "gather", "gather_elements", "gather_nd")
# Those that read what is asked of them.
_THROUGH = ("reshape", "transpose", "broadcast")
# By a convolution's algorithm: the share of the direct sum's products that it makes, and how much
# larger its weights are, as fractions. F(m x m, 3 x 3) makes (m + 2)^2 products for 9 m^2.
_ALGORITHMS = {"winograd_2": ((4, 9), (16, 9)), "winograd_4": ((1, 4), (4, 1))}


@dataclass(frozen=True)
class KernelCost:
    """``flops`` counts as the operators' cost rules do: a product's multiply and add as two, any
    scalar function as one, and a convolution as the direct one; ``work`` counts the products that
    its algorithm makes. ``reads``, ``weights`` (constants that are read) and ``writes`` are bytes,
    each tensor once however often it is looked at. ``dtype`` is what most of the work is computed
    in.
    """

    flops: Dim
    work: Dim
    reads: Dim
    weights: Dim
    writes: Dim
    dtype: str


def kernel_cost(op: Op) -> KernelCost:
    """The cost of an op at stage "fused": of a fused region, or of a kernel that stands alone."""
    inner = list(op.regions[0].ops) if op.short == "fused" else [op]
    reads: Dim = 0
    weights: Dim = 0
    for value, elements in _read(op).values():
        size = mul(elements, value.type.dtype.size)
        if _is_constant(value):
            weights = add(weights, size)
        else:
            reads = add(reads, size)
    writes = _sum(mul(v.type.elements, v.type.dtype.size) for v in op.results)
    flops = [_flops(o) for o in inner]
    work = [_scaled(f, _algorithm(o)[0]) for f, o in zip(flops, inner, strict=True)]
    weights = add(weights, _sum(map(_transformed, inner)))
    return KernelCost(_sum(flops), _sum(work), reads, weights, writes, _dtype(inner, op))


def estimate(op: Op) -> Dim:
    """About how many picoseconds a call takes, over the symbols: 100 GFLOP/s and 20 GB/s, which say
    no more than which kernels are the larger ones."""
    cost = kernel_cost(op)
    moved = add(add(cost.reads, cost.weights), cost.writes)
    return add(mul(cost.work, 10), mul(moved, 50))


def _algorithm(op: Op) -> tuple[tuple[int, int], tuple[int, int]]:
    return _ALGORITHMS.get(op.attrs.get("algorithm", ""), ((1, 1), (1, 1)))


def _scaled(value: Dim, by: tuple[int, int]) -> Dim:
    return value if by == (1, 1) else floordiv(mul(value, by[0]), by[1])


def _transformed(op: Op) -> Dim:
    """Bytes by which a convolution's transformed weights are larger than those of the model."""
    factor = _algorithm(op)[1]
    if factor == (1, 1):
        return 0
    weight = op.operands[1].type
    return _scaled(mul(weight.elements, weight.dtype.size), (factor[0] - factor[1], factor[1]))


def _flops(op: Op) -> Dim:
    definition = registry().get(op.name)
    if definition is None or definition.fusion in ("source", "movement", "control"):
        return 0
    operands, results = [v.type for v in op.operands], [v.type for v in op.results]
    return definition.cost(operands, results, op.attrs).flops if results else 0


def _dtype(inner: Iterable[Op], op: Op) -> str:
    for candidate in inner:
        definition = registry().get(candidate.name)
        if definition is not None and definition.fusion == "contraction":
            return _multiplied(candidate)
    return str(op.results[0].type.dtype) if op.results else ""


def _multiplied(op: Op) -> str:
    """The dtype of a contraction's products. Depthwise convolutions widen what they read."""
    dtype = "bf16" if op.attrs.get("narrow") else str(op.operands[0].type.dtype)
    return "f32" if dtype == "bf16" and is_depthwise(op) else dtype


def _read(op: Op) -> dict[int, tuple[Value, Dim]]:
    """Each operand once, with how many of its elements are read."""
    found: dict[int, tuple[Value, Dim]] = {}
    for index, value in enumerate(op.operands):
        if op.short == "fused":
            elements = _needed(op.regions[0].args[index])
        elif op.short in _PARTIAL and index == 0:
            elements = minimum(value.type.elements, op.results[0].type.elements)
        else:
            elements = value.type.elements
        if id(value) in found:
            elements = minimum(add(found[id(value)][1], elements), value.type.elements)
        found[id(value)] = (value, elements)
    return found


def _needed(value: Value) -> Dim:
    """How many elements of a value inside a region are looked at, at most."""
    total: Dim = 0
    for (_, index), user in value.uses.items():
        if user.short in _PARTIAL and index == 0:
            used = user.results[0].type.elements
        elif user.short in _THROUGH:
            used = _needed(user.results[0])
        else:
            return value.type.elements
        total = add(total, used)
    return minimum(total, value.type.elements)


def _is_constant(value: Value) -> bool:
    while value.op is not None and value.op.short == "reshape":
        value = value.op.operands[0]
    return value.op is not None and value.op.short == "constant"


def _sum(values: Iterable[Dim]) -> Dim:
    total: Dim = 0
    for value in values:
        total = add(total, value)
    return total
