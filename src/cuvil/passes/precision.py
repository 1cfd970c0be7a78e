"""Contractions with constant weights on bf16 operands, summed in f32.

The rounding stands in the graph: weights become bf16 constants, and a cast stands before what they
are multiplied with. Depthwise convolutions round their input alone: they make no pairs of channels,
but half as much is stored for them and read. Attention is only allowed to round, which machines
that multiply pairs make use of; minimal filtering reads bf16, but its weights are rounded after
their transform, if at all (native/winograd_bf16.hpp). Movements are taken along, so that the cast
is fused with whatever computes the elements. Everything else stays f32, results of contractions
too; but what is stored as bf16 for products, and added to another result, is added as it is stored.
The last dimension summed over gets an even size, for kernels read pairs; what is added is zero.
"""

from __future__ import annotations

import numpy as np

from cuvil.analysis.contraction_views import NATIVE_RANK, against_pair_depthwise, is_depthwise
from cuvil.ir.core import Op, Value, Weight
from cuvil.ir.types import BF16, F32
from cuvil.ops.rounded import ROUNDED
from cuvil.passes.algorithms import (
    DIRECT_IS_FINE,
    WINOGRAD,
    best_tile_bf16,
    unfit,
    usual_sizes,
)
from cuvil.passes.matching import Array, constant_of, scalar_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule

PRECISIONS = ("f32", "bf16")
LARGE_TABLE = 1 << 20
"""Elements from which a table that rows are looked up in is stored as bf16."""

_TAKEN_ALONG = ("reshape", "transpose")


def _rounded(array: Array) -> Array:
    """To nearest, ties to even; NaN stays NaN."""
    out: Array = array.astype(BF16.numpy)
    return out


def _narrow(rw: Rewriter, value: Value) -> Value:
    op = value.op
    if op is not None and op.short in _TAKEN_ALONG:
        return rw.value(op.short, [_narrow(rw, op.operands[0])], **op.attrs)
    if op is not None and op.short == "cast" and op.operands[0].type.dtype == BF16:
        return op.operands[0]  # a model of bf16, whose product was written in f32
    return rw.value("cast", [value], dtype=BF16)


def _even(rw: Rewriter, value: Value, axis: int) -> Value:
    """``value`` with a zero behind each row along ``axis`` if those have an odd size."""
    size = value.type.shape[axis]
    if not isinstance(size, int) or size % 2 == 0:
        return value
    hi = tuple(int(i == axis) for i in range(value.type.rank))
    return rw.value("pad", [value], lo=(0,) * value.type.rank, hi=hi, mode="constant", value=0.0)


@rule("bf16-matmul", "matmul")
def narrow_matmul(op: Op, context: Context) -> Outcome:
    """matmul(a, w) -> matmul(cast(a, bf16), bf16 w) {out = f32}, for a constant w"""
    reason = _unfit(op)
    if reason:
        return Refusal(reason)
    if op.attrs.get("trans_b"):
        return Refusal("the weights are transposed")

    def action(rw: Rewriter) -> list[Value]:
        a, rank = _narrow(rw, op.operands[0]), op.operands[0].type.rank
        if op.attrs.get("trans_a"):  # pairs lie in rows
            a = rw.value("transpose", [a], perm=(*range(rank - 2), rank - 1, rank - 2))
        return [_product(rw, op, _even(rw, a, rank - 1), -2)]

    return action


def _paired_channels(rw: Rewriter, op: Op, axis: int) -> Value:
    """A convolution with its channels last on pairs of them, which are ``axis`` of the weights."""
    x = _even(rw, _narrow(rw, op.operands[0]), op.operands[0].type.rank - 1)
    return _product(rw, op, x, axis)


@rule("bf16-conv", "conv")
def narrow_conv(op: Op, context: Context) -> Outcome:
    """conv(x, w) -> conv(cast(x, bf16), bf16 w) {out = f32}, for a constant w"""
    reason = _unfit(op)
    if reason:
        return Refusal(reason)
    if not op.attrs.get("channels_last"):
        return Refusal("the channels are not last")
    channels = op.operands[1].type.shape[1]
    if channels == 1:
        return Refusal("one channel (of a group) makes no pairs")
    if op.attrs["groups"] != 1 and channels % 2:
        return Refusal("a group has an odd number of channels")
    return lambda rw: [_paired_channels(rw, op, 1)]


@rule("bf16-conv-transpose", "conv_transpose")
def narrow_conv_transpose(op: Op, context: Context) -> Outcome:
    """conv_transpose(x, w) -> conv_transpose(cast(x, bf16), bf16 w) {out = f32}, w constant"""
    reason = _unfit(op)
    if reason:
        return Refusal(reason)
    if not op.attrs.get("channels_last"):
        return Refusal("the channels are not last")
    if op.type.rank > NATIVE_RANK[op.short]:
        return Refusal("it has too many dimensions for the kernel")
    channels, groups = op.operands[1].type.shape[0], op.attrs["groups"]
    if not isinstance(channels, int) or (groups != 1 and channels // groups % 2):
        return Refusal("a group has an odd number of channels")
    return lambda rw: [_paired_channels(rw, op, 0)]


@rule("bf16-depthwise", "conv")
def narrow_depthwise(op: Op, context: Context) -> Outcome:
    """conv(x, w) -> conv(cast(x, bf16), w) {out = f32}, for a filter a channel and a constant w"""
    reason = _unfit(op)
    if reason:
        return Refusal(reason)
    if not is_depthwise(op):
        return Refusal("it has more than one channel for each filter")
    reason = against_pair_depthwise(op)
    if reason:
        return Refusal(reason)
    if op.operands[0].op is None:
        return Refusal("its input is given, so that rounding it takes a pass")

    def action(rw: Rewriter) -> list[Value]:
        x = _narrow(rw, op.operands[0])
        return [rw.op(op.name, [x, *op.operands[1:]], {**op.attrs, "out": F32}).result]

    return action


def narrow_filtering(pair_rate: float) -> Rule:
    """The rule for convolutions that minimal filtering is the fastest for, where ``pair_rate``
    times as many products of bf16 are made as of f32."""

    @rule("bf16-minimal-filtering", "conv")
    def filtering(op: Op, context: Context) -> Outcome:
        """conv(x, w [o, c, 3, 3]) -> conv(cast(x, bf16), w) {algorithm = winograd_m, out = f32}"""
        reason = "its algorithm is chosen" if "algorithm" in op.attrs else unfit(op)
        if reason:
            return Refusal(reason)
        tile = best_tile_bf16(*usual_sizes(op, context.facts), pair_rate)
        if tile == 1:
            return Refusal(DIRECT_IS_FINE)

        def action(rw: Rewriter) -> list[Value]:
            x = _narrow(rw, op.operands[0])
            attrs = {**op.attrs, "algorithm": WINOGRAD[tile], "out": F32}
            return [rw.op(op.name, [x, *op.operands[1:]], attrs).result]

        return action

    return filtering


def _product(rw: Rewriter, op: Op, left: Value, axis: int) -> Value:
    """The op on ``left`` and its weights, rounded, of an even size along ``axis``."""
    constant = _constant(rw, op.operands[1], axis)
    attrs = {**{k: v for k, v in op.attrs.items() if k != "trans_a"}, "out": F32}
    return rw.op(op.name, [left, constant, *op.operands[2:]], attrs).result


def _constant(rw: Rewriter, value: Value, even: int | None = None) -> Value:
    """A constant in bf16, of an even size along the axis ``even``."""
    assert value.op is not None
    source = value.op.attrs["value"]
    array = source.array
    if even is not None and array.shape[even] % 2:
        array = np.concatenate([array, np.zeros_like(array.take([0], even))], even)
    return rw.value("constant", value=Weight(_rounded(array), source.name))


def _unfit(op: Op) -> str:
    """Why a product can't have bf16 operands; empty if it can."""
    a, b = op.operands[:2]
    if any(t != F32 for t in (a.type.dtype, b.type.dtype, op.type.dtype)):
        return "it is not in f32"
    if constant_of(b) is None:
        return "its right operand is not constant"
    return ""


@rule("bf16-attention", "attention")
def narrow_attention(op: Op, context: Context) -> Outcome:
    """attention(q, k, v) -> attention(q, k, v) {narrow}"""
    if op.type.dtype != F32:
        return Refusal("it is not in f32")
    if op.attrs.get("narrow"):
        return Refusal("it is so already")
    return lambda rw: [rw.op(op.name, list(op.operands), {**op.attrs, "narrow": True}).result]


@rule("bf16-recurrent", "lstm", "gru", "rnn")
def narrow_recurrent(op: Op, context: Context) -> Outcome:
    """lstm(x, w, r) -> lstm(cast(x, bf16), bf16 w, bf16 r) {out = f32}, for constants w and r"""
    if op.operands[0].type.dtype != F32:
        return Refusal("it is not in f32")
    if any(constant_of(v) is None for v in op.operands[1:3]):
        return Refusal("its weights are not constant")

    def action(rw: Rewriter) -> list[Value]:
        x = _even(rw, _narrow(rw, op.operands[0]), 2)
        weights = [_constant(rw, op.operands[1], 2), _constant(rw, op.operands[2])]
        attrs = {**op.attrs, "out": F32}
        return list(rw.op(op.name, [x, *weights, *op.operands[3:]], attrs).results)

    return action


@rule("bf16-table", "gather")
def narrow_table(op: Op, context: Context) -> Outcome:
    """gather(table, i) -> cast(gather(bf16 table, i), f32), for a large constant table"""
    table = constant_of(op.operands[0])
    if table is None or op.operands[0].type.dtype != F32:
        return Refusal("the table is not constant, or not f32")
    if table.size < LARGE_TABLE:
        return Refusal("the table is small")

    def action(rw: Rewriter) -> list[Value]:
        rows = rw.op("gather", [_constant(rw, op.operands[0]), *op.operands[1:]], op.attrs).result
        return [rw.value("cast", [rows], dtype=F32)]

    return action


@rule("bf16-residual", "add")
def narrow_residual(op: Op, context: Context) -> Outcome:
    """add(x, r) -> add(x, cast(cast(r, bf16), f32)), for r that products read as bf16"""
    if op.type.dtype != F32:
        return Refusal("it is not in f32")
    reasons = [_needed_whole(v) for v in op.operands]
    if all(reasons):
        return Refusal("; ".join(dict.fromkeys(reasons)))

    def action(rw: Rewriter) -> list[Value]:
        terms = [
            v if reason else rw.value("cast", [rw.value("cast", [v], dtype=BF16)], dtype=F32)
            for v, reason in zip(op.operands, reasons, strict=True)
        ]
        return [rw.value("add", terms)]

    return action


def _needed_whole(value: Value) -> str:
    """Why a term of a sum should stay f32; empty where it would otherwise be stored twice."""
    if value.op is None or value.op.short in ("constant", "cast", "broadcast"):
        return "it is no result that is stored"
    if not any(_rounds(user) for user in value.users):
        return "nothing reads it as bf16"
    if not all(_rounds(user) or user.short == "add" for user in value.users):
        return "something else reads it in f32"
    return ""


@rule("bf16-gated", "mul", "reduce_mean")
def narrow_gated(op: Op, context: Context) -> Outcome:
    """mul(x, g), mean(x) -> mul(x', g), mean(x'), x' = cast(cast(x, bf16), f32), for an x that such
    means read, and products that are rounded"""
    if op.type.dtype != F32:
        return Refusal("it is not in f32")
    reasons = [_needed_by_gate(v) for v in op.operands]
    if all(reasons):
        return Refusal("; ".join(dict.fromkeys(reasons)))

    def action(rw: Rewriter) -> list[Value]:
        terms = [
            v if reason else rw.value("cast", [rw.value("cast", [v], dtype=BF16)], dtype=F32)
            for v, reason in zip(op.operands, reasons, strict=True)
        ]
        return [rw.value(op.short, terms, **op.attrs)]

    return action


def _needed_by_gate(value: Value) -> str:
    """Why a squeeze-and-excite block's input should stay f32; empty if it should not."""
    if value.op is None or value.op.short in ("constant", "cast", "broadcast"):
        return "it is no result that is stored"
    rounded = [_rounds(user) or _is_rounded_product(user) for user in value.users]
    if not any(rounded):
        return "no product of it is rounded"
    means = [user.short == "reduce_mean" for user in value.users]
    # Without a mean, a product may be part of the kernel that makes it.
    if not any(means) and not any(map(_rounds, value.users)):
        return "nothing needs it before its product"
    if not all(a or b for a, b in zip(rounded, means, strict=True)):
        return "something else reads it in f32"
    return ""


def _is_rounded_product(user: Op) -> bool:
    return user.short == "mul" and all(_rounds(reader) for reader in user.result.users)


@rule("bf16-activation", "cast")
def narrow_activation(op: Op, context: Context) -> Outcome:
    """cast(gelu(x), bf16) -> gelu_bf16(x), and so for gelu_tanh and silu, if all users round"""
    inner = op.operands[0].op
    if not _rounds(op) or inner is None or inner.short not in ROUNDED:
        return Refusal("it doesn't round such an activation to bf16")
    if inner.operands[0].type.dtype != F32:
        return Refusal("it is not in f32")
    if not all(_rounds(user) for user in inner.result.users):
        return Refusal("something else reads it in f32")
    return lambda rw: [rw.value(ROUNDED[inner.short], list(inner.operands))]


@rule("bf16-divisor", "div")
def divide_by_factor(op: Op, context: Context) -> Outcome:
    """div(x, c) -> mul(x, 1 / c), for a scalar constant c, if all that is made of it is rounded"""
    number = scalar_of(op.operands[1])
    if op.type.dtype != F32 or number is None:
        return Refusal("it is not in f32, or its divisor is no scalar constant")
    with np.errstate(all="ignore"):
        factor = np.float32(1) / np.float32(number)
    if not np.finfo(np.float32).tiny <= abs(factor) <= np.finfo(np.float32).max:
        return Refusal("its divisor has no normal reciprocal")
    if not _ends_rounded(op.result, _LONGEST):
        return Refusal("something else reads it in f32")

    def action(rw: Rewriter) -> list[Value]:
        wide = rw.value("constant", value=Weight(np.asarray(factor, np.float32)))
        if op.type.rank:
            wide = rw.value("broadcast", [wide], shape=op.type.shape)
        return [rw.value("mul", [op.operands[0], wide])]

    return action


_LINEAR = ("add", "sub", "mul", "max", "min")
_LONGEST = 4  # maps from a result to where it is rounded


def _ends_rounded(value: Value, steps: int) -> bool:
    """Whether sums, products and bounds are all that is made of a value before it is rounded."""
    return bool(value.users) and all(
        _rounds(user)
        or (steps > 0 and user.short in _LINEAR and _ends_rounded(user.result, steps - 1))
        for user in value.users
    )


def _rounds(user: Op) -> bool:
    return user.short == "cast" and user.type.dtype == BF16


DEPTHWISE_RULES: list[Rule] = [narrow_depthwise]
STORE_RULES: list[Rule] = [narrow_residual, narrow_gated]
MAP_RULES: list[Rule] = [narrow_activation, divide_by_factor]
RULES: list[Rule] = [
    narrow_matmul, narrow_conv, narrow_conv_transpose, narrow_attention, narrow_recurrent,
    narrow_table,
]  # fmt: skip
