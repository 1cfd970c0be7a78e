"""Products of quantised tensors multiply the bytes, for targets whose weights must stay bytes.

In: captured IR. Out: products of dequantised bytes are products of the bytes, in i32, scaled
afterwards; convolutions of bytes have their channels last and stay whole. The other targets
multiply bytes where that is faster, which the frontends decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuvil.analysis.contraction_views import BYTES, NATIVE_RANK
from cuvil.ir.core import Op, Value, Weight
from cuvil.ir.types import F32, I8, I32, U8
from cuvil.ops.registry import registry
from cuvil.passes.decompose import Writer
from cuvil.passes.layout import to_first, to_last
from cuvil.passes.matching import Array, constant_of, defined_by
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule

_MOST_PRODUCTS = (2**31 - 1) // (255 * 128)
"""Sums of more products of two bytes than this may leave i32."""
_MOST_PARAMETERS = 1 << 16  # scales and zero points of a tensor: one each, or one a channel
_MOVED = ("reshape", "transpose")


@dataclass(frozen=True)
class _Codes:
    """The value (codes - zero) * scale; zero and scale broadcast to it."""

    codes: Value
    zero: Array
    scale: Array


def _known(value: Value) -> Array | None:
    """What a value made of few constants is, seen through broadcasts."""
    op = value.op
    if op is None:
        return None
    if op.short == "constant":
        array = constant_of(value)
        return array if array is not None and array.size <= _MOST_PARAMETERS else None
    if op.short == "broadcast":
        return _known(op.operands[0])
    if op.short not in ("cast", *_MOVED) or not value.type.is_static:
        return None
    array = _known(op.operands[0])
    if array is None or array.shape != op.operands[0].type.shape:
        return None
    return np.asarray(registry()[op.name].reference([array], op.attrs, [op.type])[0])


def _dequantised(value: Value) -> _Codes | None:
    """The bytes behind a value, where DequantizeLinear made it of them."""
    product = defined_by(value, "mul")
    if product is None or value.type.dtype != F32:
        return None
    real, scale = defined_by(product.operands[0], "cast"), _known(product.operands[1])
    if real is None or scale is None or not np.isfinite(scale).all():
        return None
    wide, zero = real.operands[0], np.zeros((), np.int32)
    shifted = defined_by(wide, "sub")
    if shifted is not None:
        found = _known(shifted.operands[1])
        if found is None:
            return None
        wide, zero = shifted.operands[0], found
    narrow = defined_by(wide, "cast")
    if narrow is None or narrow.operands[0].type.dtype not in (U8, I8) or wide.type.dtype != I32:
        return None
    return _Codes(narrow.operands[0], zero, scale)


def _as_codes(value: Value) -> tuple[_Codes, list[Op]] | None:
    """The same for one scale and zero point, seen through movements: those are given too."""
    moves: list[Op] = []
    while (op := defined_by(value, *_MOVED)) is not None:
        moves.append(op)
        value = op.operands[0]
    found = _dequantised(value)
    if found is None or found.zero.size != 1 or found.scale.size != 1:
        return None
    return found, moves[::-1]


def _weights(value: Value, channel: int) -> tuple[Array, Array] | None:
    """Constant weights as i8 without a zero point, and their scale: one, or one for each index
    along ``channel``."""
    found = _dequantised(value)
    codes = None if found is None else constant_of(found.codes)
    if found is None or codes is None:
        return None
    centred = codes.astype(np.int32) - found.zero
    if centred.size == 0 or centred.min() < -128 or centred.max() > 127:
        return None
    shape = (1,) * (codes.ndim - found.scale.ndim) + found.scale.shape
    if any(size != 1 and axis != channel for axis, size in enumerate(shape)):
        return None
    return centred.astype(np.int8), found.scale.reshape(-1)


@rule("products-of-codes", "matmul", "conv")
def products_of_codes(op: Op, context: Context) -> Outcome:
    """conv((x - z) * s, (w - y) * t) -> (conv(x, w - y) - z * sum(w - y)) * (s * t), in i32 up to
    the scale, for constant w, y, z, s and t"""
    if op.type.dtype != F32 or op.attrs.get("trans_a"):
        return Refusal("it is not computed in f32, or its rows are columns")
    matmul = op.short == "matmul"
    turned = bool(op.attrs.get("trans_b"))
    x = _as_codes(op.operands[0])
    w = _weights(op.operands[1], 0 if turned or not matmul else op.operands[1].type.rank - 1)
    if x is None or w is None:
        return Refusal("an operand is not made of bytes by known scales")
    weights, scale = w
    if matmul:
        weights = weights.swapaxes(-1, -2) if turned else weights
        if weights.ndim != 2:
            return Refusal("the weights are several matrices")
    summed = (0,) if matmul else tuple(range(1, weights.ndim))
    if int(np.prod([weights.shape[a] for a in summed])) > _MOST_PRODUCTS:
        return Refusal("a sum may leave i32")
    codes, moves = x
    zero = int(codes.zero.reshape(()))
    after = (1,) * (0 if matmul else weights.ndim - 2)

    def action(rw: Rewriter) -> list[Value]:
        write = Writer(rw)
        given = codes.codes
        for move in moves:
            given = rw.value(move.short, [given], **move.attrs)
        operands = [given, _constant(rw, weights)]
        attrs = {k: v for k, v in op.attrs.items() if k not in ("trans_b", "has_bias")}
        if not matmul:
            attrs |= {"pad_value": zero, "has_bias": False}
        total = rw.op(op.name, operands, {**attrs, "out": I32}).result
        if zero != 0:
            sums = weights.sum(axis=summed, dtype=np.int64) * zero
            column = sums.astype(np.int32).reshape(-1, *after)
            total = write("sub", total, _constant(rw, column))
        both = (codes.scale.reshape(()) * scale).astype(np.float32).reshape(-1, *after)
        real = write("mul", write.cast(total, F32), _constant(rw, both))
        if op.attrs.get("has_bias"):
            bias = op.operands[2]
            real = write("add", real, write.reshape(bias, (*bias.type.shape, *after)))
        return [real]

    return action


def _constant(rw: Rewriter, array: Array) -> Value:
    return rw.value("constant", value=Weight(np.ascontiguousarray(array)))


@rule("conv-of-bytes", "conv")
def conv_of_bytes(op: Op, context: Context) -> Outcome:
    """conv(pad(x, value=z), w) -> conv(x, w) {channels last, pad_value = z, algorithm = "bytes"}"""
    if op.attrs.get("algorithm") == BYTES:
        return Refusal("its algorithm is chosen")
    if op.operands[0].type.dtype not in (U8, I8) or op.type.dtype != I32 or op.attrs["has_bias"]:
        return Refusal("it does not sum products of bytes in i32")
    weights = constant_of(op.operands[1])
    if weights is None or weights.dtype != np.int8 or op.type.rank > NATIVE_RANK["conv"]:
        return Refusal("the weights are not constant bytes, or there are too many dimensions")
    if op.attrs.get("channels_last"):
        return Refusal("the channels are last already")
    x, attrs = _without_pad(op)

    def action(rw: Rewriter) -> list[Value]:
        rank = op.type.rank
        last = rw.value("transpose", [x], perm=to_last(rank))
        more = {"channels_last": True, "algorithm": BYTES}
        made = rw.op(op.name, [last, op.operands[1]], {**attrs, **more}).result
        return [rw.value("transpose", [made], perm=to_first(rank))]

    return action


def _without_pad(op: Op) -> tuple[Value, dict[str, object]]:
    """The input before a constant pad in front of the convolution, and the attributes with it."""
    attrs = dict(op.attrs)
    pad = defined_by(op.operands[0], "pad")
    if pad is None or any((*attrs["pads_lo"], *attrs["pads_hi"])):
        return op.operands[0], attrs
    lo, hi = (tuple(pad.attrs[side]) for side in ("lo", "hi"))
    constant = pad.attrs.get("mode", "constant") == "constant"
    if not constant or any((*lo[:2], *hi[:2])) or not all(type(d) is int for d in (*lo, *hi)):
        return op.operands[0], attrs
    value = int(pad.attrs.get("value") or 0)
    return pad.operands[0], {**attrs, "pads_lo": lo[2:], "pads_hi": hi[2:], "pad_value": value}


RULES: list[Rule] = [products_of_codes, conv_of_bytes]
