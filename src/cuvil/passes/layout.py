"""Channels last: convolutions and pools are turned, and the transposes sink until they meet.

One rule set turns each operator into its channels-last form between two transposes; the other
moves a transpose from an operand of an operator to its result. Where two meet they cancel.
"""

from __future__ import annotations

from cuvil.ir.core import Op, Value
from cuvil.ir.types import F32
from cuvil.ops.registry import registry
from cuvil.passes.decompose import Writer
from cuvil.passes.matching import defined_by, repeats_nothing, spread_constant
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation from [N, C, *spatial] to [N, *spatial, C]."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation from [N, *spatial, C] to [N, C, *spatial]."""
    return (0, rank - 1, *range(1, rank - 1))


def inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes ``perm``."""
    return tuple(perm.index(i) for i in range(len(perm)))


@rule("channels-last", "conv", "conv_transpose", "max_pool", "avg_pool")
def channels_last(op: Op, context: Context) -> Outcome:
    """conv(x) -> transpose(conv(transpose(x), channels last))"""
    if op.attrs.get("channels_last"):
        return Refusal("channels are last already")
    if op.type.dtype != F32 and op.short.startswith("conv"):
        return Refusal("only f32 has a channels-last convolution")

    def action(rw: Rewriter) -> list[Value]:
        rank = op.type.rank
        x = rw.value("transpose", [op.operands[0]], perm=to_last(rank))
        attrs = {**op.attrs, "channels_last": True}
        turned = rw.op(op.name, [x, *op.operands[1:]], attrs).result
        return [rw.value("transpose", [turned], perm=to_first(rank))]

    return action


def _turned(value: Value, perm: tuple[int, ...], rw: Rewriter) -> Value:
    """``transpose(value, perm)``, written so that it costs nothing where it can."""
    inner = defined_by(value, "transpose")
    if inner is not None and tuple(inner.attrs["perm"]) == inverse(perm):
        return inner.operands[0]
    spread = defined_by(value, "broadcast")
    if spread is not None:
        source = spread.operands[0]
        w = Writer(rw)
        full = (1,) * (value.type.rank - source.type.rank) + source.type.shape
        shaped = w.reshape(source, full)
        moved = rw.value("transpose", [shaped], perm=perm)
        shape = tuple(value.type.shape[p] for p in perm)
        return rw.value("broadcast", [moved], shape=shape)
    return rw.value("transpose", [value], perm=perm)


def _free_to_turn(value: Value) -> bool:
    """Constants, broadcasts of few elements, and single numbers."""
    if spread_constant(value) is not None:
        return True
    spread = defined_by(value, "broadcast")
    if spread is None:
        return False
    wide = [d for d in spread.operands[0].type.shape if d != 1]
    return len(wide) <= 2


@rule("sink-transpose-through-map", *(
    d.name.rsplit(".", 1)[-1] for d in registry().values() if d.fusion == "map"
))  # fmt: skip
def sink_through_map(op: Op, context: Context) -> Outcome:
    """map(transpose(a), transpose(b)) -> transpose(map(a, b))"""
    inner = next((t for v in op.operands if (t := defined_by(v, "transpose"))), None)
    if inner is None:
        return Refusal("no operand is a transpose")
    if op.short == "materialize":
        return Refusal("its operand is to be laid out as it is")
    perm = tuple(inner.attrs["perm"])
    for value in op.operands:
        other = defined_by(value, "transpose")
        if other is not None and tuple(other.attrs["perm"]) == perm:
            continue
        if not _free_to_turn(value):
            return Refusal("an operand can't be turned for free")

    def action(rw: Rewriter) -> list[Value]:
        operands = [_turned(v, inverse(perm), rw) for v in op.operands]
        made = rw.op(op.name, operands, op.attrs).result
        return [rw.value("transpose", [made], perm=perm)]

    return action


_REDUCTIONS = (
    "reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_any",
    "reduce_all",
)  # fmt: skip


@rule("sink-transpose-through-reduce", *_REDUCTIONS)
def sink_through_reduce(op: Op, context: Context) -> Outcome:
    """reduce(transpose(x, p), axes) -> transpose(reduce(x, p[axes]), p)"""
    inner = defined_by(op.operands[0], "transpose")
    if inner is None:
        return Refusal("the operand is no transpose")
    if not op.attrs.get("keepdims"):
        return Refusal("it drops its dimensions")
    perm = tuple(inner.attrs["perm"])
    axes = tuple(sorted(perm[a % len(perm)] for a in op.attrs["axes"]))

    def action(rw: Rewriter) -> list[Value]:
        made = rw.op(op.name, inner.operands, {**op.attrs, "axes": axes}).result
        return [rw.value("transpose", [made], perm=perm)]

    return action


@rule("sink-transpose-through-concat", "concat")
def sink_through_concat(op: Op, context: Context) -> Outcome:
    """concat(transpose(a), transpose(b)) -> transpose(concat(a, b))"""
    perms = {
        tuple(t.attrs["perm"]) if (t := defined_by(v, "transpose")) else None for v in op.operands
    }
    if len(perms) != 1 or None in perms:
        return Refusal("not every operand is the same transpose")
    perm = perms.pop()
    assert perm is not None

    def action(rw: Rewriter) -> list[Value]:
        operands = [_turned(v, inverse(perm), rw) for v in op.operands]
        axis = perm[op.attrs["axis"] % len(perm)]
        made = rw.value("concat", operands, axis=axis)
        return [rw.value("transpose", [made], perm=perm)]

    return action


@rule("sink-transpose-through-slice", "slice", "pad", "resize")
def sink_through_slice(op: Op, context: Context) -> Outcome:
    """slice(transpose(x)) -> transpose(slice(x)), and the same for pad and resize"""
    inner = defined_by(op.operands[0], "transpose")
    if inner is None:
        return Refusal("the operand is no transpose")
    if len(op.operands) > 1:
        return Refusal("what it does to each dimension is another operand")
    perm = tuple(inner.attrs["perm"])
    back = inverse(perm)
    attrs = dict(op.attrs)
    for key in ("start", "size", "step", "lo", "hi", "sizes", "scales", "roi"):
        if attrs.get(key):
            if len(attrs[key]) != len(perm):
                return Refusal(f"{key} does not have one entry for each dimension")
            attrs[key] = tuple(attrs[key][back[i]] for i in range(len(perm)))

    def action(rw: Rewriter) -> list[Value]:
        made = rw.op(op.name, inner.operands, attrs).result
        return [rw.value("transpose", [made], perm=perm)]

    return action


@rule("sink-transpose-through-broadcast", "broadcast")
def sink_through_broadcast(op: Op, context: Context) -> Outcome:
    """broadcast(transpose(x)) -> transpose(broadcast(x)), where it repeats nothing: it only says
    that sizes which are written differently are the same"""
    inner = defined_by(op.operands[0], "transpose")
    if inner is None:
        return Refusal("the operand is no transpose")
    if not repeats_nothing(op):
        return Refusal("it repeats elements")
    perm = tuple(inner.attrs["perm"])

    def action(rw: Rewriter) -> list[Value]:
        shape = tuple(op.type.shape[p] for p in inverse(perm))
        made = rw.value("broadcast", inner.operands, shape=shape)
        return [rw.value("transpose", [made], perm=perm)]

    return action


TURN_RULES: list[Rule] = [channels_last]
SINK_RULES: list[Rule] = [
    sink_through_map,
    sink_through_reduce,
    sink_through_concat,
    sink_through_slice,
    sink_through_broadcast,
]
