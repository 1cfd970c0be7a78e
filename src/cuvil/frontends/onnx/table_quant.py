"""Quantisation: affine maps between floats and small integers."""

from __future__ import annotations

import numpy as np

from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.table_conv import kernel_size
from cuvil.frontends.onnx.table_linear import matmul
from cuvil.frontends.onnx.types import dtype_from
from cuvil.frontends.onnx.windows import windows
from cuvil.ir.core import Value
from cuvil.ir.types import F32, F64, I2, I4, I8, I32, NARROW_FLOATS, U2, U4, U8, DType


def _spread(n: Node, parameter: Value, x: Value) -> Value:
    """A scale or zero point shaped to broadcast over x: per tensor, per axis, or per block."""
    e = n.e
    shape = parameter.type.shape
    block = n.integer("block_size", 0)
    if block and parameter.type.rank == x.type.rank:
        axis = n.axis("axis", 1, x.type.rank)
        apart = e.broadcast(
            e.unsqueeze(parameter, axis + 1), (*shape[: axis + 1], block, *shape[axis + 1 :])
        )
        whole = e.reshape(apart, [d if i != axis else d * block for i, d in enumerate(shape)])
        return e.slice(whole, axis, 0, x.type.shape[axis])
    if parameter.type.rank == 0 or shape == (1,):
        return e.reshape(parameter, ())
    axis = n.axis("axis", 1, x.type.rank) if x.type.rank > 1 else 0
    return e.reshape(parameter, (*shape, *[1] * (x.type.rank - axis - 1)))


def _is_zero(n: Node, zero: Value | None) -> bool:
    """Whether there is no zero point to add; adding one would turn -0 into 0."""
    if zero is None:
        return True
    array = n.knowledge.array(zero)
    return array is not None and not array.astype(np.float32).any()


def dequantized(
    n: Node, x: Value, scale: Value, zero: Value | None, out: DType | None = None
) -> Value:
    """(x - zero) * scale (DequantizeLinear-25), in f32 where the result is no wider, rounded once.

    The difference of integers is one of i32, that of narrow floats one of f32.
    """
    e = n.e
    out = out or (F32 if scale.type.dtype.is_narrow else scale.type.dtype)
    work = F64 if out == F64 else F32
    wide = e.cast(x, F32 if x.type.dtype in NARROW_FLOATS else I32)
    if zero is not None and not _is_zero(n, zero):
        wide = e.map("sub", wide, e.cast(zero, wide.type.dtype))
    return e.cast(e.map("mul", e.cast(wide, work), e.cast(scale, work)), out)


def quantized(
    n: Node, x: Value, scale: Value, zero: Value | None, kind: DType, saturate: bool = True
) -> Value:
    """saturate(round_half_even(x / scale) + zero) (QuantizeLinear-25); x and scale are floats of
    one type. Narrow floats are rounded by the cast alone."""
    e = n.e
    ratio = e.map("div", x, scale)
    if kind in NARROW_FLOATS:
        if zero is not None and not _is_zero(n, zero):
            ratio = e.map("add", ratio, e.cast(zero, ratio.type.dtype))
        return e.op("cast", ratio, dtype=kind, saturate=saturate)
    steps = e.cast(e.op("round", ratio), I32)
    if kind.size < 4:
        limit = 1 << 24
        steps = e.with_scalar("max", e.with_scalar("min", steps, limit), -limit)
    if zero is not None:
        steps = e.map("add", steps, e.cast(zero, I32))
    if kind.size < 4:
        low, high = _ends(kind)
        steps = e.with_scalar("max", e.with_scalar("min", steps, high), low)
    return e.cast(steps, kind)


def _ends(kind: DType) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    if kind in (I4, I2):
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    if kind in (U4, U2):
        return 0, (1 << kind.bits) - 1
    limits = np.iinfo(kind.numpy)
    return int(limits.min), int(limits.max)


def _division_dtype(n: Node) -> DType:
    """What x / scale is computed in: as asked, else the scale's type if that can divide."""
    asked = n.integer("precision", 0)
    if asked:
        return dtype_from(asked)
    scale = n[1].type.dtype
    if scale.is_narrow:
        return n.dtype() if n.dtype().is_float else F32
    return scale if scale.is_float else F64


def quantize(n: Node) -> Value:
    """QuantizeLinear-25."""
    e, x = n.e, n[0]
    work = _division_dtype(n)
    zero = _spread(n, n[2], x) if n.has(2) else None
    asked = n.integer("output_dtype", 0)
    kind = n[2].type.dtype if n.has(2) else dtype_from(asked) if asked else U8
    scale = _spread(n, e.cast(n[1], work), x)
    saturate = bool(n.integer("saturate", 1))
    return quantized(n, e.cast(x, work), scale, zero, kind, saturate)


def dequantize(n: Node) -> Value:
    """DequantizeLinear-25."""
    x = n[0]
    zero = _spread(n, n[2], x) if n.has(2) else None
    asked = n.integer("output_dtype", 0)
    out = dtype_from(asked) if asked else None
    return dequantized(n, x, _spread(n, n[1], x), zero, out)


def dynamically_quantized(n: Node, x: Value) -> tuple[Value, Value, Value]:
    """u8, scale and zero point over the range that holds the data and 0
    (DynamicQuantizeLinear-11)."""
    e = n.e
    axes = tuple(range(x.type.rank))
    high, low = (
        e.op(name, x, axes=axes, keepdims=False) if axes else x
        for name in ("reduce_max", "reduce_min")
    )
    high, low = e.with_scalar("max", high, 0), e.with_scalar("min", low, 0)
    scale = e.with_scalar("div", e.op("sub", high, low), 255)
    zero = e.op("neg", e.op("div", low, scale))
    zero = e.with_scalar("max", e.with_scalar("min", e.op("round", zero), 255), 0)
    zero = e.cast(zero, U8)
    return quantized(n, x, scale, zero, U8), scale, zero


def _dynamic_quantize(n: Node) -> list[Value]:
    return list(dynamically_quantized(n, n[0]))


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


def qlinear_conv(n: Node) -> Value:
    """The convolution in i32 with the bias at scale x_scale * w_scale (QLinearConv-10)."""
    e = n.e
    x = e.map("sub", e.cast(n[0], I32), e.cast(e.reshape(n[2], ()), I32))
    w = n[3]
    column = [1] * (w.type.rank - 2)

    def per_channel(v: Value, ones: list[int]) -> Value:
        return e.reshape(v, ()) if v.type.elements == 1 else e.reshape(v, (*v.type.shape, *ones))

    w = e.map("sub", e.cast(w, I32), e.cast(per_channel(n[5], [1, *column]), I32))
    window = windows(n, kernel_size(n, n[3]))
    out = e.op(
        "conv", window.pad(n, x), w, *([n[8]] if n.has(8) else []),
        groups=n.integer("group", 1), has_bias=n.has(8), **window.attrs(),
    )  # fmt: skip
    scale = e.map("mul", e.reshape(n[1], ()), per_channel(n[4], column))
    real = e.map("mul", e.cast(out, F32), scale)
    return quantized(n, real, e.reshape(n[6], ()), e.reshape(n[7], ()), n[7].type.dtype)


TABLE: dict[str, Handler] = {
    "MatMulInteger": lambda n: integer_product(n, n[0], n[1], n.optional(2), n.optional(3)),
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearConv": qlinear_conv,
}
