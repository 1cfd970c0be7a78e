"""Products and convolutions of quantized tensors, exact in i32.

Zero points are corrected after the sum, so that what is multiplied are bytes.
"""

from __future__ import annotations

import numpy as np

from cuvil.frontends.onnx.knowledge import Codes
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.table_conv import conv, kernel_size
from cuvil.frontends.onnx.table_linear import matmul
from cuvil.frontends.onnx.table_quant import quantized
from cuvil.frontends.onnx.windows import Windows, windows
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F32, I8, I32, NARROW_FLOATS, U8


def per_row(n: Node, value: Value, axis: int) -> Value:
    """A vector along the second to last (-2) or last (-1) dim of a matrix; one element counts for
    all of it, and what has the matrix's rank stays."""
    if value.type.shape == (1,):
        return n.e.reshape(value, ())
    return n.e.unsqueeze(value, 1) if value.type.rank == 1 and axis == -2 else value


def integer_product(
    n: Node, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None
) -> Value:
    """(A - a_zero) (B - b_zero) in i32; zero points per tensor, row of A or column of B.

    Written as A B - b_zero rowsum(A) - a_zero (colsum(B) - K b_zero), exact as i32 wraps, so that
    the product itself is one of bytes.
    """
    e = n.e
    a_zero = per_row(n, e.cast(a_zero, I32), -2) if a_zero is not None else None
    b_zero = per_row(n, e.cast(b_zero, I32), -1) if b_zero is not None else None
    if a.type.rank < 2 or b.type.rank < 2:
        left, right = e.cast(a, I32), e.cast(b, I32)
        left = left if a_zero is None else e.map("sub", left, a_zero)
        return matmul(n, left, right if b_zero is None else e.map("sub", right, b_zero))
    b, b_zero = _centred(n, b, b_zero)
    out = matmul(n, a, b, I32)
    if b_zero is not None:
        rows = e.op("reduce_sum", e.cast(a, I32), axes=(a.type.rank - 1,), keepdims=True)
        out = e.map("sub", out, e.map("mul", rows, b_zero))
    if a_zero is not None:
        columns = e.op("reduce_sum", e.cast(b, I32), axes=(b.type.rank - 2,), keepdims=True)
        if b_zero is not None:
            count = e.cast(e.dims([b.type.shape[-2]], scalar=True), I32)
            columns = e.map("sub", columns, e.map("mul", b_zero, count))
        out = e.map("sub", out, e.map("mul", columns, a_zero))
    return out


def _centred(n: Node, b: Value, zero: Value | None) -> tuple[Value, Value | None]:
    """Constant weights of bytes as i8 without a zero point, where they fit."""
    array = n.knowledge.array(b)
    shift = n.knowledge.array(zero) if zero is not None else np.zeros((), np.int32)
    if array is None or shift is None or b.type.dtype.size != 1:
        return b, zero
    moved = array.astype(np.int32) - shift
    if moved.size and (moved.min() < -128 or moved.max() > 127):
        if b.type.dtype == I8:
            return b, zero
        moved, rest = array.astype(np.int32) - 128, n.e.weight(np.asarray(shift - 128, np.int32))
        return n.e.weight(moved.astype(np.int8)), rest
    return n.e.weight(moved.astype(np.int8)), None


def _qlinear_matmul(n: Node) -> Value:
    """The product in i32 (of narrow floats in f32), scaled by a_scale * b_scale, then quantized
    (QLinearMatMul-21)."""
    e = n.e
    scale = e.map("mul", per_row(n, n[1], -2), per_row(n, n[4], -1))
    if NARROW_FLOATS & {n[0].type.dtype, n[3].type.dtype}:
        left = e.map("sub", e.cast(n[0], F32), per_row(n, e.cast(n[2], F32), -2))
        right = e.map("sub", e.cast(n[3], F32), per_row(n, e.cast(n[5], F32), -1))
        total = matmul(n, left, right)
    else:
        total = integer_product(n, n[0], n[3], n[2], n[5])
    real = e.map("mul", e.cast(total, n[1].type.dtype), scale)
    return quantized(n, real, e.reshape(n[6], ()), e.reshape(n[7], ()), n[7].type.dtype)


def _per_channel(n: Node, value: Value, after: int) -> Value:
    """One value, or one an output channel with ``after`` dims behind it."""
    if value.type.elements == 1:
        return n.e.reshape(value, ())
    return n.e.reshape(value, (*value.type.shape, *[1] * after))


def integer_conv(
    n: Node, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None
) -> Value:
    """The convolution of x - x_zero with w - w_zero in i32, windows as the node has them.

    Bytes with constant weights are multiplied as they are: x is padded with its zero point, and
    x_zero times the sum of a channel's weights comes off afterwards.
    """
    e, spatial = n.e, w.type.rank - 2
    window = windows(n.with_inputs([x]), kernel_size(n, w))
    groups = n.integer("group", 1)
    x_zero = e.reshape(e.cast(x_zero, I32), ()) if x_zero is not None else None
    w_zero = _per_channel(n, e.cast(w_zero, I32), spatial + 1) if w_zero is not None else None
    moved, rest = _centred(n, w, w_zero)
    weights = n.knowledge.array(moved)
    if rest is not None or weights is None or moved.type.dtype != I8 or x.type.dtype.size != 1:
        left, right = e.cast(x, I32), e.cast(w, I32)
        left = left if x_zero is None else e.map("sub", left, x_zero)
        right = right if w_zero is None else e.map("sub", right, w_zero)
        return e.op("conv", window.pad(n, left), right, groups=groups, has_bias=False,
                    **window.attrs())  # fmt: skip
    padded, attrs = x, window.attrs()
    if x_zero is not None and any(p != 0 for p in (*window.lo, *window.hi)):
        padded = _padded_with(n, x, window, x_zero)
        attrs.update(pads_lo=(0,) * spatial, pads_hi=(0,) * spatial)
    else:
        padded = window.pad(n, x)
    out = e.op("conv", padded, moved, groups=groups, has_bias=False, out=I32, **attrs)
    if x_zero is None:
        return out
    total = weights.astype(np.int32).sum(axis=tuple(range(1, weights.ndim)), dtype=np.int32)
    column = e.weight(total.reshape(-1, *[1] * spatial))
    return e.map("sub", out, e.map("mul", column, x_zero))


def _padded_with(n: Node, x: Value, window: Windows, zero: Value) -> Value:
    """x with its spatial dims padded by its zero point."""
    e = n.e
    lo, hi = (0, 0, *window.lo), (0, 0, *window.hi)
    known = n.knowledge.array(zero)
    if known is not None:
        return e.op("pad", x, lo=lo, hi=hi, value=float(known.reshape(())) or None)
    inside = e.op("pad", e.broadcast(e.scalar(True, BOOL), x.type.shape), lo=lo, hi=hi)
    return e.map("select", inside, e.op("pad", x, lo=lo, hi=hi), e.cast(zero, x.type.dtype))


# Bytes are multiplied where a tap has so many channels: fewer leave a product's steps half empty.
_MIN_DEPTH = 16
# Sums of more products of two bytes than this may leave i32.
_MOST_PRODUCTS = (2**31 - 1) // (255 * 128)


def conv_of_codes(n: Node) -> Value:
    """Conv-22; of dequantized bytes, the convolution of the bytes in i32, scaled afterwards.

    Both have one value in exact arithmetic, and this one is rounded twice only.
    """
    x, w = n.knowledge.codes(n[0]), n.knowledge.codes(n[1])
    if x is None or w is None or x.axis is not None or not _are_bytes(n, x, w):
        return conv(n)
    e, spatial = n.e, w.codes.type.rank - 2
    codes = n.with_inputs([x.codes, w.codes])
    out = integer_conv(codes, x.codes, w.codes, x.zero, w.zero)
    scale = e.map("mul", e.reshape(x.scale, ()), _per_channel(n, w.scale, spatial))
    real = e.map("mul", e.cast(out, F32), scale)
    if not n.has(2):
        return real
    return e.map("add", real, e.reshape(n[2], (*n[2].type.shape, *[1] * spatial)))


def _are_bytes(n: Node, x: Codes, w: Codes) -> bool:
    """Whether bytes can be multiplied instead: scales are known and finite, weights fit i8 without
    their zero point, no sum leaves i32, and there are enough channels for it to be faster."""
    dtypes = {x.real.type.dtype, w.real.type.dtype, x.scale.type.dtype, w.scale.type.dtype}
    if dtypes != {F32} or x.codes.type.dtype not in (I8, U8) or w.axis not in (None, 0):
        return False
    weights, known = n.knowledge.array(w.codes), [x.scale, w.scale]
    if weights is None or weights.ndim < 3 or weights.shape[1] < _MIN_DEPTH:
        return False
    if x.zero is not None and n.knowledge.array(x.zero) is None:
        return False
    for value in known:
        scale = n.knowledge.array(value)
        if scale is None or not np.isfinite(scale).all():
            return False
    if np.prod(weights.shape[1:]) > _MOST_PRODUCTS:
        return False
    zero = None if w.zero is None else n.e.cast(w.zero, I32)
    if zero is not None:
        zero = _per_channel(n, zero, weights.ndim - 1)
    moved, rest = _centred(n, w.codes, zero)
    return rest is None and moved.type.dtype == I8


def _conv_integer(n: Node) -> Value:
    """(x - x_zero) * (w - w_zero) in i32 (ConvInteger-10)."""
    return integer_conv(n, n[0], n[1], n.optional(2), n.optional(3))


def qlinear_conv(n: Node) -> Value:
    """The convolution in i32 with the bias at scale x_scale * w_scale (QLinearConv-10)."""
    e, spatial = n.e, n[3].type.rank - 2
    out = integer_conv(n, n[0], n[3], n[2], n[5])
    if n.has(8):
        out = e.map("add", out, e.reshape(n[8], (*n[8].type.shape, *[1] * spatial)))
    scale = e.map("mul", e.reshape(n[1], ()), _per_channel(n, n[4], spatial))
    real = e.map("mul", e.cast(out, F32), scale)
    return quantized(n, real, e.reshape(n[6], ()), e.reshape(n[7], ()), n[7].type.dtype)


TABLE: dict[str, Handler] = {
    "Conv": conv_of_codes,
    "MatMulInteger": lambda n: integer_product(n, n[0], n[1], n.optional(2), n.optional(3)),
    "QLinearMatMul": _qlinear_matmul,
    "ConvInteger": _conv_integer,
    "QLinearConv": qlinear_conv,
}
