"""Denormal weights of products: processors take some hundred cycles for each they multiply.

Training leaves them where a penalty drives weights to zero, whole channels among them. In a layer
that has larger weights they are rounded away from zero, to 2^-100 of their sign. That moves a sum
by less than 2^-60 of the layer's largest weight times the largest input, 36 bits below what f32
keeps of such a product, and an infinite input still gives an infinity. A layer whose weights are
all small keeps them as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_INSTEAD = np.float32(2.0**-100)
_LARGE = np.float32(2.0**-40)
_CHUNK = 1 << 18
# The packings of weights in f32.
_PRODUCTS = (
    "gemm", "conv", "winograd", "depthwise", "depthwise_bf16", "conv_transpose",
    "rnn_w", "rnn_r",
)  # fmt: skip


def without_denormals(array: Array, packing: str) -> Array:
    """``array`` as the packing of that name should take it, of any shape; itself unless it is f32,
    a product's weights, and has denormals beside larger numbers."""
    if packing not in _PRODUCTS or array.dtype != np.float32 or not _has_denormals(array):
        return array
    size = np.abs(array)
    if size.max() < _LARGE:
        return array
    denormal = (size > 0) & (size < np.finfo(np.float32).tiny)
    return np.where(denormal, np.copysign(_INSTEAD, array), array)


def _has_denormals(array: Array) -> bool:
    """Whether an element has a zero exponent and another mantissa than zero (IEEE 754)."""
    bits = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
    starts = range(0, bits.size, _CHUNK)
    # Without the sign, and less one, which takes zeros to the far end.
    parts = ((bits[i : i + _CHUNK] << np.uint32(1)) - np.uint32(1) for i in starts)
    return any(bool((part < 0x00FFFFFF).any()) for part in parts)
