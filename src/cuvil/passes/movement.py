"""Movements that merge, cancel, or are no movement at all."""

from __future__ import annotations

from cuvil.ir.core import Op, Value
from cuvil.ir.types import I32, I64, Shape
from cuvil.passes.matching import defined_by, scalar_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule
from cuvil.sym.expr import Dim, add, mul


@rule("drop-identity", "reshape", "transpose", "broadcast", "slice", "cast", "pad", "concat")
def drop_identity(op: Op, context: Context) -> Outcome:
    """movement(x) -> x, when it changes nothing"""
    source = op.operands[0]
    if op.short == "concat":
        if len(op.operands) == 1:
            return lambda rw: [source]
        return Refusal("it joins several values")
    if source.type != op.type:
        return Refusal("the type changes")
    if op.short == "transpose" and list(op.attrs["perm"]) != sorted(op.attrs["perm"]):
        return Refusal("dimensions change place")
    if op.short == "slice":
        whole = all(s == 0 for s in op.attrs["start"]) and all(s == 1 for s in op.attrs["step"])
        if not whole:
            return Refusal("it starts elsewhere or steps")
    if op.short == "pad" and any(d != 0 for d in (*op.attrs["lo"], *op.attrs["hi"])):
        return Refusal("it shifts")
    return lambda rw: [source]


@rule("merge-reshapes", "reshape")
def merge_reshapes(op: Op, context: Context) -> Outcome:
    """reshape(reshape(x)) -> reshape(x)"""
    inner = defined_by(op.operands[0], "reshape")
    if inner is None:
        return Refusal("the operand is no reshape")
    return lambda rw: [rw.value("reshape", inner.operands, shape=op.attrs["shape"])]


@rule("merge-transposes", "transpose")
def merge_transposes(op: Op, context: Context) -> Outcome:
    """transpose(transpose(x, p), q) -> transpose(x, p[q])"""
    inner = defined_by(op.operands[0], "transpose")
    if inner is None:
        return Refusal("the operand is no transpose")
    perm = tuple(inner.attrs["perm"][i] for i in op.attrs["perm"])
    return lambda rw: [rw.value("transpose", inner.operands, perm=perm)]


@rule("merge-broadcasts", "broadcast")
def merge_broadcasts(op: Op, context: Context) -> Outcome:
    """broadcast(broadcast(x)) -> broadcast(x)"""
    inner = defined_by(op.operands[0], "broadcast")
    if inner is None:
        return Refusal("the operand is no broadcast")
    return lambda rw: [rw.value("broadcast", inner.operands, shape=op.attrs["shape"])]


@rule("merge-slices", "slice")
def merge_slices(op: Op, context: Context) -> Outcome:
    """slice(slice(x)) -> slice(x)"""
    inner = defined_by(op.operands[0], "slice")
    if inner is None:
        return Refusal("the operand is no slice")
    start: list[Dim] = []
    step: list[int] = []
    for axis, (s, t) in enumerate(zip(op.attrs["start"], op.attrs["step"], strict=True)):
        start.append(add(inner.attrs["start"][axis], mul(s, inner.attrs["step"][axis])))
        step.append(t * inner.attrs["step"][axis])
    return lambda rw: [
        rw.value(
            "slice", inner.operands, start=tuple(start), size=op.attrs["size"], step=tuple(step)
        )
    ]


@rule("merge-casts", "cast")
def merge_casts(op: Op, context: Context) -> Outcome:
    """cast(cast(x, wide), t) -> cast(x, t), when the inner cast loses nothing"""
    inner = defined_by(op.operands[0], "cast")
    if inner is None:
        return Refusal("the operand is no cast")
    source, middle = inner.operands[0].type.dtype, inner.type.dtype
    keeps_integers = source.is_integer and middle.is_integer and source.kind == middle.kind
    keeps_floats = source.is_float and middle.is_float
    if not (source.kind == "b" or keeps_integers or keeps_floats) or middle.size < source.size:
        return Refusal("the inner cast may lose something")
    if source.is_float and middle.size == source.size and source != middle:
        return Refusal("the inner cast may lose something")
    if middle.is_narrow:
        return Refusal("the inner cast may lose something")
    if source == op.type.dtype:
        return lambda rw: [inner.operands[0]]
    return lambda rw: [rw.value("cast", inner.operands, **op.attrs)]


def _order_of_wide_dims(shape: tuple[Dim, ...], order: list[int]) -> list[int]:
    return [i for i in order if shape[i] != 1]


@rule("transpose-of-units", "transpose")
def transpose_of_units(op: Op, context: Context) -> Outcome:
    """transpose(x) -> reshape(x), when only dimensions of size 1 change place"""
    shape = op.operands[0].type.shape
    moved = _order_of_wide_dims(shape, list(op.attrs["perm"]))
    if moved != sorted(moved):
        return Refusal("a dimension larger than 1 changes place")
    return lambda rw: [rw.value("reshape", op.operands, shape=op.type.shape)]


@rule("reshape-into-broadcast", "broadcast")
def reshape_into_broadcast(op: Op, context: Context) -> Outcome:
    """broadcast(reshape(x)) -> broadcast(x), when the reshape only adds leading 1s"""
    inner = defined_by(op.operands[0], "reshape")
    if inner is None:
        return Refusal("the operand is no reshape")
    source, shape = inner.operands[0], inner.type.shape
    extra = len(shape) - source.type.rank
    if extra < 0 or shape[extra:] != source.type.shape or any(d != 1 for d in shape[:extra]):
        return Refusal("the reshape does more than add leading dimensions of size 1")
    return lambda rw: [rw.value("broadcast", [source], shape=op.attrs["shape"])]




@rule("gather-of-slice", "gather")
def gather_one(op: Op, context: Context) -> Outcome:
    """gather(x, constant scalar) -> reshape(slice(x)), when the index is inside"""
    from_constant = defined_by(op.operands[1], "constant")
    if from_constant is None or op.operands[1].type.rank != 0:
        return Refusal("the index is no constant scalar")
    data, axis = op.operands[0], op.attrs["axis"] % op.operands[0].type.rank
    size = data.type.shape[axis]
    index = int(from_constant.attrs["value"].array)
    at = add(size, index) if index < 0 and op.attrs.get("from_end", True) else index
    if not (context.facts.nonnegative(at) and context.facts.less(at, size)):
        return Refusal("the index is not proved to be inside")
    rank = data.type.rank
    start = tuple(at if i == axis else 0 for i in range(rank))
    sizes = tuple(1 if i == axis else d for i, d in enumerate(data.type.shape))
    return lambda rw: [
        rw.value(
            "reshape",
            [rw.value("slice", [data], start=start, size=sizes, step=(1,) * rank)],
            shape=op.type.shape,
        )
    ]


@rule("gather-of-range", "gather")
def gather_range(op: Op, context: Context) -> Outcome:
    """gather(x, iota + c) -> slice(x, c), when all places are inside"""
    found = _range_of(op.operands[1])
    if found is None:
        return Refusal("the index is no range of numbers")
    first, count = found
    data, axis = op.operands[0], op.attrs["axis"] % op.operands[0].type.rank
    size, facts = data.type.shape[axis], context.facts
    if first < 0 or not facts.nonnegative(add(size, mul(add(count, first), -1))):
        return Refusal("the range is not proved to be inside")
    rank = data.type.rank
    start = tuple(first if i == axis else 0 for i in range(rank))
    sizes = tuple(count if i == axis else d for i, d in enumerate(data.type.shape))

    def action(rw: Rewriter) -> list[Value]:
        part = rw.value("slice", [data], start=start, size=sizes, step=(1,) * rank)
        return [rw.value("reshape", [part], shape=op.type.shape)]

    return action


def _range_of(value: Value) -> tuple[int, Dim] | None:
    """(c, n) of c, c + 1 ... c + n - 1 in whole numbers, with any dimensions of size 1."""
    op, shift = value.op, 0
    while op is not None and op.short in ("reshape", "cast", "add"):
        if op.type.dtype not in (I32, I64):  # which no size wraps
            return None
        operand = op.operands[0]
        if op.short == "add":
            number = scalar_of(op.operands[1])
            if not isinstance(number, int):
                return None
            shift += number
        elif op.short == "reshape" and _wide(op.type.shape) != _wide(operand.type.shape):
            return None
        op = operand.op
    if op is None or op.short != "iota" or op.type.dtype not in (I32, I64):
        return None
    count = op.type.shape[op.attrs["axis"] % op.type.rank]
    return (shift, count) if _wide(op.type.shape) in ([count], []) else None


def _wide(shape: Shape) -> list[Dim]:
    return [d for d in shape if d != 1]


RULES: list[Rule] = [
    drop_identity,
    merge_reshapes,
    merge_transposes,
    merge_broadcasts,
    merge_slices,
    merge_casts,
    transpose_of_units,
    reshape_into_broadcast,
    gather_one,
    gather_range,
]
