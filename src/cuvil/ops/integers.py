"""Maps of number theory."""

from __future__ import annotations

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
    """Euclid's algorithm in the dtype itself, whose smallest number has no absolute value."""
    x, y = (np.abs(a) for a in arrays)
    while (going := x != 0).any():
        rest = np.fmod(y, np.where(going, x, 1))
        y = np.where(going, x, y)
        x = np.where(going, rest, 0)
    return [y]


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.gcd", "map", _gcd_infer, _gcd, (2, 2),
        scalar=lambda args, types, result: f"cuvil::gcd({args[0]}, {args[1]})",
        doc="The greatest common divisor by Euclid's algorithm on the absolute values, which wrap: "
        "a result of the smallest number may be negative. 0 of two zeros.",
    ),
]  # fmt: skip
