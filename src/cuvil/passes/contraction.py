"""Constants folded into the weights of convolutions and matrix products, and shared operands."""

from __future__ import annotations

import numpy as np

from cuvil.ir.core import Op, Value, Weight
from cuvil.ir.types import I32
from cuvil.passes.decompose import Writer
from cuvil.passes.matching import Array, constant_of, defined_by, is_byte, per_channel
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule


def _channel_axis(op: Op) -> int:
    if op.short == "matmul" or op.attrs.get("channels_last"):
        return op.type.rank - 1
    return 1


def _scaled_weight(op: Op, weight: Array, factor: Array) -> Array | None:
    """The weight with output channel ``c`` multiplied by ``factor[c]``, computed in f64."""
    wide, f = weight.astype(np.float64), factor.astype(np.float64)
    if op.short == "matmul":
        if op.attrs.get("trans_b"):
            f = f.reshape(-1, 1)
        return (wide * f).astype(weight.dtype)
    if op.short == "conv":
        column = f.reshape([-1] + [1] * (weight.ndim - 1))
        return (wide * column).astype(weight.dtype)
    if op.attrs.get("groups", 1) == 1:
        column = f.reshape([1, -1] + [1] * (weight.ndim - 2))
        return (wide * column).astype(weight.dtype)
    return None


@rule("scale-into-weights", "mul")
def scale_into_weights(op: Op, context: Context) -> Outcome:
    """conv(x, w) * c -> conv(x, w * c), when c is constant and per output channel"""
    for value, other in (op.operands, op.operands[::-1]):
        inner = defined_by(value, "conv", "conv_transpose", "matmul")
        if inner is None:
            continue
        if value.only_user is not op:
            return Refusal("the product has another user")
        weight = constant_of(inner.operands[1])
        factor = per_channel(other, _channel_axis(inner))
        if weight is None or factor is None or not inner.type.dtype.is_float:
            return Refusal("the weight or the factor is not constant per channel")
        if inner.attrs.get("has_bias"):
            return Refusal("the convolution has a bias")
        if inner.short == "matmul" and (weight.ndim != 2 or inner.type.rank < 2):
            return Refusal("the weight is batched")
        scaled = _scaled_weight(inner, weight, factor)
        if scaled is None:
            return Refusal("the transposed convolution has groups")
        if not _stays_normal(weight, factor, scaled):
            return Refusal("a scaled weight leaves the range of normal numbers")
        return _with_weight(inner, scaled)
    return Refusal("no operand is a convolution or matrix product")


def _stays_normal(a: Array, b: Array, scaled: Array) -> bool:
    """Whether a product of constants is as exact as its factors: finite, and not so small that
    bits are lost."""
    if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(scaled).all()):
        return False
    sizes = np.abs(scaled.astype(np.float64))
    smallest = float(np.finfo(scaled.dtype).tiny) if scaled.dtype.kind == "f" else 2.0**-126
    return not bool(((sizes < smallest) & (sizes > 0)).any()) and (
        np.count_nonzero(scaled) == scaled.size or bool((a == 0).any() or (b == 0).any())
    )


def _with_weight(inner: Op, array: Array) -> Outcome:
    def action(rw: Rewriter) -> list[Value]:
        constant = rw.value("constant", value=Weight(array, inner.loc.name))
        operands = [inner.operands[0], constant, *inner.operands[2:]]
        return [rw.op(inner.name, operands, inner.attrs, loc=inner.loc).result]

    return action


@rule("scale-before-shift", "mul")
def scale_before_shift(op: Op, context: Context) -> Outcome:
    """(conv(x, w) + b) * c -> conv(x, w) * c + b * c, for constants b and c per channel"""
    found = _shifted_product(op)
    if found is None:
        return Refusal("no operand is a convolution plus a constant")
    product, axis, bias, factor = found
    if bias is None or factor is None or not op.type.dtype.is_float:
        return Refusal("the bias or the factor is not constant per channel")
    moved = (bias.astype(np.float64) * factor.astype(np.float64)).astype(bias.dtype)
    if not _stays_normal(bias, factor, moved):
        return Refusal("a scaled shift leaves the range of normal numbers")
    return _distribute(product, moved, factor, axis)


def _shifted_product(op: Op) -> tuple[Value, int, Array | None, Array | None] | None:
    """The product and its channels' axis where an operand of ``op`` is a product plus something
    that only ``op`` reads; what is added to it and the other operand, if constant per channel."""
    for value, other in (op.operands, op.operands[::-1]):
        shift = defined_by(value, "add")
        if shift is None or value.only_user is not op:
            continue
        for product, bias in (shift.operands, shift.operands[::-1]):
            inner = defined_by(product, "conv", "conv_transpose", "matmul")
            if inner is not None:
                axis = _channel_axis(inner)
                return product, axis, per_channel(bias, axis), per_channel(other, axis)
    return None


def _distribute(product: Value, moved: Array, factor: Array, axis: int) -> Outcome:
    rank = product.type.rank
    column = [-1] + [1] * (rank - 1 - axis)

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        scale = rw.value("constant", value=Weight(factor.reshape(column)))
        shift = rw.value("constant", value=Weight(moved.reshape(column)))
        return [w("add", w("mul", product, scale), shift)]

    return action


@rule("merge-shifts", "add")
def merge_shifts(op: Op, context: Context) -> Outcome:
    """(conv(x, w) + b) + c -> conv(x, w) + (b + c), for constants b and c per channel"""
    found = _shifted_product(op)
    if found is None:
        return Refusal("no operand is a convolution plus a constant")
    product, axis, first, second = found
    if first is None or second is None or not op.type.dtype.is_float:
        return Refusal("the shifts are not constant per channel")
    total = (first.astype(np.float64) + second.astype(np.float64)).astype(first.dtype)
    return _shifted(product, total, axis)


def _shifted(product: Value, shift: Array, axis: int) -> Outcome:
    column = [-1] + [1] * (product.type.rank - 1 - axis)

    def action(rw: Rewriter) -> list[Value]:
        constant = rw.value("constant", value=Weight(shift.reshape(column)))
        return [Writer(rw)("add", product, constant)]

    return action


@rule("pad-into-conv", "conv")
def pad_into_conv(op: Op, context: Context) -> Outcome:
    """conv(pad(x, 0)) -> conv(x, pads)"""
    pad = defined_by(op.operands[0], "pad")
    if pad is None:
        return Refusal("the operand is no pad")
    if pad.attrs.get("mode", "constant") != "constant" or pad.attrs.get("value", 0) != 0:
        return Refusal("the pad does not fill with zeros")
    if op.attrs.get("pad_value", 0) != 0:
        return Refusal("the convolution does not pad with zeros")
    last = bool(op.attrs.get("channels_last"))
    spatial = slice(1, -1) if last else slice(2, None)
    lo, hi = list(pad.attrs["lo"]), list(pad.attrs["hi"])
    inside = range(op.operands[0].type.rank)[spatial]
    if any(lo[i] != 0 or hi[i] != 0 for i in range(len(lo)) if i not in inside):
        return Refusal("the pad is not spatial")
    pads = [*lo[spatial], *hi[spatial]]
    if any(not isinstance(p, int) or p < 0 for p in pads):
        return Refusal("a pad is negative or symbolic")
    attrs = dict(op.attrs)
    attrs["pads_lo"] = tuple(a + b for a, b in zip(attrs["pads_lo"], lo[spatial], strict=True))
    attrs["pads_hi"] = tuple(a + b for a, b in zip(attrs["pads_hi"], hi[spatial], strict=True))
    return lambda rw: [rw.op(op.name, [pad.operands[0], *op.operands[1:]], attrs).result]


@rule("transpose-into-matmul", "matmul")
def transpose_into_matmul(op: Op, context: Context) -> Outcome:
    """matmul(a, transpose(b)) -> matmul(a, b, trans_b) for non-constant b, and the same for a"""
    if op.type.dtype.is_integer:
        return Refusal("integers are multiplied by rows")
    for index, flag in ((0, "trans_a"), (1, "trans_b")):
        inner = defined_by(op.operands[index], "transpose")
        if inner is None:
            continue
        perm = list(inner.attrs["perm"])
        rank = len(perm)
        if rank < 2 or perm != [*range(rank - 2), rank - 1, rank - 2]:
            continue
        operands = list(op.operands)
        operands[index] = inner.operands[0]
        attrs = {**op.attrs, flag: not op.attrs.get(flag, False)}
        return lambda rw: [rw.op(op.name, operands, attrs).result]
    return Refusal("no operand is a transpose of the last two dimensions")


@rule("constant-matmul-operand", "matmul")
def plain_constant_operand(op: Op, context: Context) -> Outcome:
    """matmul(a, constant, trans_b) -> matmul(a, transposed constant)"""
    weight = constant_of(op.operands[1])
    if weight is None or not op.attrs.get("trans_b"):
        return Refusal("b is not a transposed constant")
    attrs = {**op.attrs, "trans_b": False}

    def action(rw: Rewriter) -> list[Value]:
        source = op.operands[1].op
        assert source is not None
        turned = Weight(np.swapaxes(weight, -1, -2), source.attrs["value"].name)
        return [
            rw.op(op.name, [op.operands[0], rw.value("constant", value=turned)], attrs).result
        ]

    return action


def _linear(value: Value) -> tuple[Op, Array, Array | None, Value] | None:
    """(matmul, weight, bias or None, result) of a product with a constant plus a constant."""
    op = defined_by(value, "add")
    if op is not None:
        for product, other in (op.operands, op.operands[::-1]):
            inner = _linear(product) if defined_by(product, "matmul") else None
            bias = per_channel(other, op.type.rank - 1)
            if inner is not None and bias is not None and product.only_user is op:
                return inner[0], inner[1], bias, value
        return None
    op = defined_by(value, "matmul")
    if op is None or op.attrs.get("trans_a") or op.attrs.get("trans_b"):
        return None
    weight = constant_of(op.operands[1])
    if weight is None or weight.ndim != 2 or op.operands[0].type.rank < 2:
        return None
    return op, weight, None, value


def _siblings(op: Op) -> list[tuple[Op, Array, Array | None, Value]]:
    """Products with constants of one and the same left operand, in program order."""
    found = []
    for user in op.operands[0].users:
        if user.short != "matmul" or user.operands[0] is not op.operands[0]:
            continue
        linear = _linear(user.result)
        if linear is None:
            continue
        after = user.result.only_user
        shifted = _linear(after.result) if after is not None and after.short == "add" else None
        chosen = shifted or linear
        if chosen[3].uses:  # what was merged before is dead, but may not be swept away yet
            found.append(chosen)
    if len(found) > 1 and op.block is not None:
        place = {id(o): i for i, o in enumerate(op.block.ops)}
        found.sort(key=lambda item: place[id(item[0])])
    return found


def _no_shift(weight: Array) -> Array:
    """What changes nothing when it is added: -0.0, since -0.0 + 0.0 is 0.0."""
    return np.full(weight.shape[1], -0.0 if weight.dtype.kind != "i" else 0, weight.dtype)


@rule("merge-products", "matmul")
def merge_products(op: Op, context: Context) -> Outcome:
    """matmul(x, w1) + b1, matmul(x, w2) + b2, ... -> slices of matmul(x, [w1 w2 ...]) + [b1 b2 ...]

    The classical case is the query, key and value of attention: x is read once.
    """
    if op.type.dtype.is_integer:
        return Refusal("sums of integers are scaled on their tiles, each product's by its own")
    group = _siblings(op)
    if len(group) < 2:
        return Refusal("no other product of a constant shares the left operand")
    if group[0][0] is not op:
        return Refusal("an earlier product shares the left operand")
    widths = [w.shape[1] for _, w, _, _ in group]
    if max(widths) > 4 * min(widths) or sum(widths) > 16384:
        return Refusal("the products are too different in width")
    if any(item[3].type.dtype != op.type.dtype for item in group):
        return Refusal("the products differ in dtype")
    biases = [
        _no_shift(w) if b is None else np.broadcast_to(b, (w.shape[1],))
        for _, w, b, _ in group
    ]
    wide = np.concatenate([w for _, w, _, _ in group], axis=1)
    has_bias = any(b is not None for _, _, b, _ in group)

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        constant = rw.value("constant", value=Weight(wide, op.loc.name))
        joined = rw.op(op.name, [op.operands[0], constant], op.attrs).result
        if has_bias:
            bias = rw.value("constant", value=Weight(np.concatenate(biases)))
            joined = w("add", joined, bias)
        rank = joined.type.rank
        at, pieces = 0, []
        for width in widths:
            start = tuple(at if i == rank - 1 else 0 for i in range(rank))
            size = (*joined.type.shape[:-1], width)
            pieces.append(
                rw.value("slice", [joined], start=start, size=size, step=(1,) * rank)
            )
            at += width
        for (_, _, _, old), new in list(zip(group, pieces, strict=True)):
            if old is not op.result:
                rw.replace_value(old, new)
        return [pieces[0]]

    return action


@rule("bias-into-conv", "add")
def bias_into_conv(op: Op, context: Context) -> Outcome:
    """conv(x, w, a) + b -> conv(x, w, a + b), when a and b are constant and per output channel"""
    for value, other in (op.operands, op.operands[::-1]):
        inner = defined_by(value, "conv", "conv_transpose")
        if inner is None:
            continue
        axis = _channel_axis(inner)
        bias, channels = per_channel(other, axis), inner.type.shape[axis]
        if value.only_user is not op:
            return Refusal("the convolution has another user")
        if bias is None or not inner.type.dtype.is_float or not isinstance(channels, int):
            return Refusal("what is added is not constant per channel")
        total = np.broadcast_to(bias, (channels,)).astype(np.float64)
        if inner.attrs.get("has_bias"):
            own = constant_of(inner.operands[2])
            if own is None:
                return Refusal("the convolution's own bias is not constant")
            total = total + own
        return _with_bias(inner, total.astype(bias.dtype))
    return Refusal("no operand is a convolution")


def _with_bias(inner: Op, bias: Array) -> Outcome:
    def action(rw: Rewriter) -> list[Value]:
        constant = rw.value("constant", value=Weight(bias, f"{inner.loc.name}.bias"))
        attrs = {**inner.attrs, "has_bias": True}
        return [rw.op(inner.name, [*inner.operands[:2], constant], attrs, loc=inner.loc).result]

    return action


@rule("bytes-into-conv", "conv")
def bytes_into_conv(op: Op, context: Context) -> Outcome:
    """conv(cast(x), cast(w)) -> conv(x, w) {out = i32}, when x and w are bytes"""
    casts = [defined_by(v, "cast") for v in op.operands[:2]]
    narrow = [c.operands[0] for c in casts if c is not None and is_byte(c.operands[0])]
    if op.type.dtype != I32 or len(narrow) != 2:
        return Refusal("its operands are not bytes made i32")

    def action(rw: Rewriter) -> list[Value]:
        operands = [*narrow, *op.operands[2:]]
        return [rw.op(op.name, operands, {**op.attrs, "out": I32}, loc=op.loc).result]

    return action


FOLD_RULES: list[Rule] = [
    pad_into_conv,
    plain_constant_operand,
    transpose_into_matmul,
    scale_into_weights,
    scale_before_shift,
    merge_shifts,
]
MERGE_RULES: list[Rule] = [merge_products]
BIAS_RULES: list[Rule] = [bias_into_conv, bytes_into_conv]
