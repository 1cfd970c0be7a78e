"""Maps of number theory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import TensorType
from cuvil.ops.base import Array, Attrs, OpDef, ShapeContext, same_dtype, same_shape


def _gcd_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    dtype = same_dtype(types, "gcd")
    if not dtype.is_integer:
        raise InvalidModelError(f"gcd is not defined for {dtype}")
    return [TensorType(same_shape(ctx, types, "gcd"), dtype)]


def _gcd(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
    a, b = (np.asarray(x) for x in arrays)
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
    bits = a.dtype.itemsize * 8
    unsigned = np.array([math.gcd(x, y) % (1 << bits) for x, y in pairs], f"u{a.dtype.itemsize}")
    return [unsigned.astype(a.dtype).reshape(a.shape)]


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.gcd", "map", _gcd_infer, _gcd, (2, 2),
        scalar=lambda args, types, result: f"cuvil::gcd({args[0]}, {args[1]})",
        doc="The greatest common divisor; 0 of two zeros. What doesn't fit wraps.",
    ),
]  # fmt: skip
