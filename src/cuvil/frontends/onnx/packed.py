"""Elements of less than 8 bits, as ONNX packs them: the first in the lowest bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvil.ir.types import I2, I4, DType

Array = np.ndarray[Any, Any]


def unpacked(data: Array, dtype: DType, count: int) -> Array:
    """``count`` elements from bytes that hold at least as many."""
    if dtype.bits == 6:
        flat = np.unpackbits(data, bitorder="little", count=6 * count)
        codes = np.packbits(flat.reshape(count, 6), axis=1, bitorder="little")[:, 0]
    else:
        each = 8 // dtype.bits
        codes = np.empty((len(data), each), np.uint8)
        for place in range(each):
            codes[:, place] = data >> np.uint8(place * dtype.bits)
        codes = codes.reshape(-1)[:count]
    return normal(codes, dtype)


def normal(codes: Array, dtype: DType) -> Array:
    """Codes as elements, without anything above an element's bits but an integer's sign."""
    if dtype.bits < 8:
        codes = codes & np.uint8((1 << dtype.bits) - 1)
    if dtype in (I4, I2):
        sign = np.uint8(1 << (dtype.bits - 1))
        codes = (codes ^ sign) - sign
    return np.ascontiguousarray(codes).view(dtype.numpy)
