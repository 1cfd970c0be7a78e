"""Quantisation: affine maps between floats and small integers."""

from __future__ import annotations

import numpy as np

from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.table_conv import kernel_size
from cuvil.frontends.onnx.table_linear import matmul
from cuvil.frontends.onnx.types import dtype_from
from cuvil.frontends.onnx.windows import windows
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I32, U8, DType


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
    axis = n.axis("axis", 1, x.type.rank)
    return e.reshape(parameter, (*shape, *[1] * (x.type.rank - axis - 1)))


def dequantized(e_node: Node, x: Value, scale: Value, zero: Value | None) -> Value:
    """(x - zero) * scale; the difference in i32, the product in the scale's type."""
    e = e_node.e
    wide = e.cast(x, I32)
    if zero is not None:
        wide = e.map("sub", wide, e.cast(zero, I32))
    return e.map("mul", e.cast(wide, scale.type.dtype), scale)


def quantized(e_node: Node, x: Value, scale: Value, zero: Value | None, kind: DType) -> Value:
    """saturate(round_half_even(x / scale) + zero) (QuantizeLinear-13)."""
    e = e_node.e
    steps = e.cast(e.op("round", e.map("div", x, scale)), I32)
    if kind.size < 4:
        limit = 1 << 24
        steps = e.with_scalar("max", e.with_scalar("min", steps, limit), -limit)
    if zero is not None:
        steps = e.map("add", steps, e.cast(zero, I32))
    ends = np.iinfo(kind.numpy)
    if kind.size < 4:
        steps = e.with_scalar("max", e.with_scalar("min", steps, int(ends.max)), int(ends.min))
    return e.cast(steps, kind)


def _quantize(n: Node) -> Value:
    x = n[0]
    scale = _spread(n, n[1], x)
    zero = _spread(n, n[2], x) if n.has(2) else None
    asked = n.attrs.get("output_dtype")
    kind = n[2].type.dtype if n.has(2) else dtype_from(asked) if asked else U8
    return quantized(n, n.e.cast(x, scale.type.dtype), scale, zero, kind)


def _dequantize(n: Node) -> Value:
    x = n[0]
    zero = _spread(n, n[2], x) if n.has(2) else None
    out = dequantized(n, x, _spread(n, n[1], x), zero)
    asked = n.attrs.get("output_dtype")
    return n.e.cast(out, dtype_from(asked)) if asked else out


def _dynamic_quantize(n: Node) -> list[Value]:
    """u8 over the range that holds the data and 0 (DynamicQuantizeLinear-11)."""
    e, x = n.e, n[0]
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
    return [quantized(n, x, scale, zero, U8), scale, zero]


def _per_row(n: Node, value: Value, axis: int, like: Value) -> Value:
    """A vector along the second to last (-2) or last (-1) dim of a matrix."""
    if value.type.rank != 1 or value.type.shape == (1,):
        return n.e.reshape(value, ()) if value.type.rank == 1 else value
    return n.e.unsqueeze(value, 1) if axis == -2 else value


def _qlinear_matmul(n: Node) -> Value:
    """The product in i32, scaled by a_scale * b_scale, then quantized (QLinearMatMul-10)."""
    e = n.e
    a, b = n[0], n[3]
    a_scale, a_zero = (_per_row(n, n[i], -2, a) for i in (1, 2))
    b_scale, b_zero = (_per_row(n, n[i], -1, b) for i in (4, 5))
    left = e.map("sub", e.cast(a, I32), e.cast(a_zero, I32))
    right = e.map("sub", e.cast(b, I32), e.cast(b_zero, I32))
    exact = e.cast(matmul(n, left, right), a_scale.type.dtype)
    real = e.map("mul", exact, e.map("mul", a_scale, b_scale))
    return quantized(n, real, e.reshape(n[6], ()), e.reshape(n[7], ()), n[7].type.dtype)


def _qlinear_conv(n: Node) -> Value:
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
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearConv": _qlinear_conv,
}
