"""Linear layers and convolutions of dequantized bytes: the bytes are multiplied, in i32.

Both ways have one value in exact arithmetic. The sum of bytes is exact and rounded twice, when it
is scaled and when the bias is added, where floats are rounded at every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.frontends.torch_export.call import Call
from cuvil.frontends.torch_export.emit import Codes
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I8, I32, U8

Array = np.ndarray[Any, Any]

# Bytes are multiplied where a sum has so many products: fewer leave a product's steps half empty.
_MIN_DEPTH = 16
# Sums of more products of two bytes than this may leave i32.
_MOST_PRODUCTS = (2**31 - 1) // (255 * 128)


@dataclass(frozen=True)
class _Weights:
    """Constant weights: bytes without a zero point, and a scale, or one an output channel."""

    bytes: Array
    scale: Array


def _weights(c: Call, value: Value) -> _Weights | None:
    """The weights behind a value, if their bytes can be multiplied as they are."""
    found = c.e.codes.get(value)
    if found is None or found.axis not in (None, 0):
        return None
    codes, scale = c.e.constant(found.codes), c.e.constant(found.scale)
    zero = np.zeros((), np.int32) if found.zero is None else c.e.constant(found.zero)
    if codes is None or scale is None or zero is None or not np.isfinite(scale).all():
        return None
    after = (1,) * (codes.ndim - 1)
    moved = codes.astype(np.int64) - (zero.reshape(-1, *after) if zero.ndim else zero)
    depth = int(np.prod(codes.shape[1:]))
    if not codes.size or moved.min() < -128 or moved.max() > 127 or depth > _MOST_PRODUCTS:
        return None
    return _Weights(moved.astype(np.int8), scale)


def _operands(c: Call, x: Value, w: Value) -> tuple[Codes, _Weights] | None:
    """What is to be multiplied, if both operands are bytes and x has one scale."""
    found, weights = c.e.codes.get(x), _weights(c, w)
    if found is None or weights is None or found.axis is not None:
        return None
    if found.codes.type.dtype not in (I8, U8) or weights.bytes.shape[1] < _MIN_DEPTH:
        return None
    scale = c.e.constant(found.scale)
    return None if scale is not None and not np.isfinite(scale).all() else (found, weights)


def _factor(c: Call, scale: Value) -> Value:
    """The scale of the data; NaN for an infinite one, by which floats would multiply zeros."""
    if c.e.constant(scale) is not None:
        return scale
    return c.e.map("select", c.e.op("isinf", scale), c.e.scalar(math.nan, F32), scale)


def _real(c: Call, total: Value, x: Codes, w: _Weights, after: int) -> Value:
    """Sums of products of bytes as f32, with the bias; ``after`` dims follow the channels."""
    e, tail = c.e, (1,) * after
    if x.zero is not None:
        sums = w.bytes.astype(np.int32).sum(axis=tuple(range(1, w.bytes.ndim)), dtype=np.int32)
        known = e.constant(x.zero)
        column = sums.reshape(-1, *tail)
        correction = (
            e.map("mul", e.weight(column), x.zero)
            if known is None
            else e.weight(np.multiply(column, known, dtype=np.int32))
        )
        total = e.map("sub", total, correction)
    scale = w.scale.reshape(-1, *tail) if w.scale.ndim else w.scale
    both = e.map("mul", _factor(c, x.scale), e.weight(scale))
    out = e.map("mul", e.cast(total, F32), both)
    bias = c.tensor_or_none("bias")
    if bias is None:
        return out
    return e.map("add", out, e.reshape(bias, (*bias.type.shape, *tail)))


def linear_of_codes(c: Call) -> Value | None:
    """linear((x - z) * s, (w - y) * t) as (x (w - y)' - z sum(w - y)) * (s * t), or None where it
    has to be computed in floats."""
    found = _operands(c, c.tensor("input"), c.tensor("weight"))
    if found is None or found[1].bytes.ndim != 2 or found[0].codes.type.rank < 2:
        return None
    x, w = found
    turned = c.e.weight(np.ascontiguousarray(w.bytes.T))
    return _real(c, c.e.op("matmul", x.codes, turned, out=I32), x, w, 0)


def conv_of_codes(c: Call, x_value: Value, attrs: dict[str, Any]) -> Value | None:
    """The same for a convolution, whose padding is of x's zero point; ``attrs`` are those of the
    operator conv, without a bias."""
    found = _operands(c, x_value, c.tensor("weight"))
    if found is None:
        return None
    (x, w), e = found, c.e
    padded, attrs = x.codes, {**attrs, "has_bias": False}
    lo, hi = attrs["pads_lo"], attrs["pads_hi"]
    if x.zero is not None and any((*lo, *hi)):
        zero = e.constant(x.zero)
        if zero is None or not np.iinfo(padded.type.dtype.numpy).min <= zero <= 255:
            return None
        padded = e.op("pad", padded, lo=(0, 0, *lo), hi=(0, 0, *hi), value=float(zero))
        attrs |= {"pads_lo": (0,) * len(lo), "pads_hi": (0,) * len(hi)}
    total = e.op("conv", padded, e.weight(w.bytes), out=I32, **attrs)
    return _real(c, total, x, w, len(lo))
