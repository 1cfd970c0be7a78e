"""Quantisation: affine maps between floats and small integers."""

from __future__ import annotations

import numpy as np

from cuvil.frontends.onnx.knowledge import Codes
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.types import dtype_from
from cuvil.ir.core import Value
from cuvil.ir.types import F32, F64, I2, I4, I32, I64, NARROW_FLOATS, U2, U4, U8, DType


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

    The difference of integers is one of a type that has it, that of narrow floats one of f32.
    """
    e = n.e
    out = out or (F32 if scale.type.dtype.is_narrow else scale.type.dtype)
    work = F64 if out == F64 else F32
    wide = e.cast(x, F32 if x.type.dtype in NARROW_FLOATS else I32)
    if zero is not None and not _is_zero(n, zero):
        wide = e.cast(x, I64) if x.type.dtype == I32 else wide
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
    known = None if zero is None else n.knowledge.array(zero)
    if kind.size < 4 and known is not None:  # as below, with the limits moved instead of the steps
        low, high = (e.weight(end - known.astype(np.int32)) for end in _ends(kind))
        steps = e.map("max", e.map("min", steps, high), low)
        return e.cast(e.map("add", steps, e.cast(zero, I32)), kind)
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
    real = dequantized(n, x, _spread(n, n[1], x), zero, out)
    if not n.integer("block_size", 0):
        whole = n[1].type.elements == 1
        axis = None if whole else n.axis("axis", 1, x.type.rank) if x.type.rank > 1 else 0
        n.knowledge.note_codes(Codes(real, x, n[1], n.optional(2), axis))
    return real


def dynamically_quantized(n: Node, x: Value) -> tuple[Value, Value, Value]:
    """u8, scale and zero point over the range that holds the data and 0
    (DynamicQuantizeLinear-11). Of zeros alone the scale is 1, as runtimes have it: the formula's 0
    would divide by itself."""
    e = n.e
    axes = tuple(range(x.type.rank))
    high, low = (
        e.op(name, x, axes=axes, keepdims=False) if axes else x
        for name in ("reduce_max", "reduce_min")
    )
    high, low = e.with_scalar("max", high, 0), e.with_scalar("min", low, 0)
    scale = e.with_scalar("div", e.op("sub", high, low), 255)
    scale = e.map("select", e.op("eq", high, low), e.scalar(1, x.type.dtype), scale)
    zero = e.op("neg", e.op("div", low, scale))
    zero = e.with_scalar("max", e.with_scalar("min", e.op("round", zero), 255), 0)
    zero = e.cast(zero, U8)
    return quantized(n, x, scale, zero, U8), scale, zero


def _dynamic_quantize(n: Node) -> list[Value]:
    return list(dynamically_quantized(n, n[0]))


TABLE: dict[str, Handler] = {
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
}
