"""Casts between element types, and the narrow types that exist only in casts and in memory.

Where a source's specification leaves a value open, this file decides:

- float to integer truncates, and NaN gives 0. Out of range i32 and i64 saturate. Integers of 16
  bits and less keep the low bits of what fits i32, u32 of what fits i64, and give 0 for all else;
  u64 keeps the low bits of negative numbers that fit i64, and saturates above. (These are the
  values that NumPy, PyTorch and ONNX Runtime give, where they agree.)
- integer to narrower integer keeps the low bits; anything to bool is ``!= 0``;
- what is wider than f32 goes to a float of 16 bits or less by way of f32, as torch does;
- to a narrow float: rounded to nearest, ties to even. Out of range is the largest finite value
  or, where ``saturate`` is false, infinity, or NaN where the type has no infinity. Types without
  NaN take it as -0;
- f8e8m0fnu is a power of two: ``round_mode`` is "up" (away from zero), "down" or "nearest" (ties
  up). After rounding, what is too small or zero gives 2^-127, what is too large 2^127, both NaN
  where ``saturate`` is false; negative numbers give NaN.

Source: the tables of ONNX Cast-25 and, for types without NaN, what its reference does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import (
    BF16,
    BOOL,
    F8E8M0,
    F16,
    F32,
    I32,
    NARROW_FLOATS,
    NARROW_INTEGERS,
    DType,
    TensorType,
    dtype_of,
)
from cuvil.ops.base import Array, Attrs, OpDef, ShapeContext
from cuvil.ops.elementwise import narrow, widen
from cuvil.ops.numeric import is_float

ROUND_MODES = ("up", "down", "nearest")
_LARGEST: Mapping[str, float] = {
    "f8e4m3fn": 448, "f8e4m3fnuz": 240, "f8e5m2": 57344, "f8e5m2fnuz": 57344,
    "f6e2m3fn": 7.5, "f6e3m2fn": 28, "f4e2m1fn": 6,
}  # fmt: skip


def _infer_cast(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    if attrs.get("round_mode", "up") not in ROUND_MODES:
        mode = attrs["round_mode"]
        raise InvalidModelError(f"cast: round_mode {mode!r} is none of {', '.join(ROUND_MODES)}")
    return [types[0].with_dtype(attrs["dtype"])]


def _infer_bitcast(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    source, target = types[0].dtype, attrs["dtype"]
    if source.bits != target.bits:
        raise InvalidModelError(
            f"bitcast: {source} has {source.bits} bits an element, {target} has {target.bits}"
        )
    return [types[0].with_dtype(target)]


def _e8m0_array(array: Array, saturate: bool, round_mode: str) -> Array:
    """Biased exponents; 255 is NaN. Rounded as if exponents had no bounds."""
    mantissa, exponent = np.frexp(array.astype(np.float64))  # 0.5 <= |mantissa| < 1
    up = {"up": mantissa > 0.5, "nearest": mantissa >= 0.75, "down": mantissa < 0}[round_mode]
    code = exponent - 1 + up + 127
    code = np.where(array == 0, -1, np.where(array == np.inf, 255, code))
    if saturate:
        code = np.clip(code, 0, 254)
    bad = (code < 0) | (code > 254) | np.isnan(array) | (array < 0)
    return np.where(bad, 255, code).astype(np.uint8).view(F8E8M0.numpy)


def _narrow_array(array: Array, dtype: DType, saturate: bool, round_mode: str) -> Array:
    if dtype in NARROW_INTEGERS:
        if is_float(array):
            array = _integral_part(array, 31)
        return array.astype(np.int64).astype(dtype.numpy)
    array = array.astype(np.float32)
    if dtype == F8E8M0:
        return _e8m0_array(array, saturate, round_mode)
    out = array.astype(dtype.numpy)
    if saturate:
        top = _LARGEST[dtype.name]
        out = np.clip(array, -top, top).astype(dtype.numpy)  # keeps NaN
    if dtype.bits < 8:
        out = np.where(np.isnan(array), np.asarray(-0.0, dtype.numpy), out)
    return np.asarray(out)


def _widened(array: Array, source: DType) -> Array:
    """A narrow type's elements as f32 or i8, by their own bits alone."""
    if source in NARROW_INTEGERS:
        return array.astype(np.int8)
    own = np.ascontiguousarray(array).view(np.uint8) & np.uint8((1 << source.bits) - 1)
    return own.view(source.numpy).reshape(array.shape).astype(np.float32)


def cast_array(
    array: Array, dtype: DType, saturate: bool = True, round_mode: str = "up"
) -> Array:
    """The cast Cuvil defines, as the top of this file says."""
    source, target = dtype_of(array.dtype), dtype.numpy
    with np.errstate(all="ignore"):
        if source.is_narrow and dtype != source:
            array = _widened(array, source)
        if dtype == BOOL:
            return np.asarray(array != 0)
        if dtype.is_narrow:
            if dtype == source:
                return array
            return _narrow_array(array, dtype, saturate, round_mode)
        if dtype.is_integer and is_float(array):
            return _integer(array, dtype)
        if dtype in (F16, BF16) and array.dtype.itemsize == 8:
            array = array.astype(np.float32)
        return np.asarray(array.astype(target))


def _integral_part(array: Array, bits: int) -> Array:
    """As i64; 0 for what is no number below 2^bits."""
    wide = array.astype(np.float64)
    return np.where(np.abs(wide) < 2.0**bits, np.trunc(wide), 0).astype(np.int64)


def _integer(array: Array, dtype: DType) -> Array:
    if dtype.size < 4:
        return _integral_part(array, 31).astype(dtype.numpy)
    if dtype.kind == "i":
        return _saturated(array, dtype.numpy)
    low = _integral_part(array, 63).astype(dtype.numpy)
    return np.where(array < 0, low, _saturated(array, dtype.numpy)) if dtype.size == 8 else low


def _saturated(array: Array, target: np.dtype[Any]) -> Array:
    info = np.iinfo(target)
    wide = np.trunc(array.astype(np.float64))
    low, high = float(info.min), float(info.max)
    out = np.where((wide > low) & (wide < high), wide, 0).astype(target)
    out = np.where(wide <= low, np.array(info.min, target), out)
    return np.where(wide >= high, np.array(info.max, target), out)


def _reference_cast(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    how = (attrs.get("saturate", True), attrs.get("round_mode", "up"))
    return [cast_array(np.asarray(arrays[0]), attrs["dtype"], *how)]


def _reference_bitcast(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    array, dtype = np.ascontiguousarray(arrays[0]), attrs["dtype"]
    if dtype == BOOL:
        return [(array.view(np.uint8) != 0).reshape(arrays[0].shape)]
    return [array.view(dtype.numpy).reshape(arrays[0].shape)]


def cast_text(
    text: str, source: DType, result: DType, saturate: bool = True, round_mode: str = "up"
) -> str:
    """The C++ expression of a cast."""
    if result == source:
        return text
    text = widen(text, source)
    if source.is_narrow:
        text = f"cuvil::from_{source.name}({text})"
        source = F32 if source in NARROW_FLOATS else I32
    if result == BOOL:
        return f"({text} != 0)"
    if result.is_narrow:
        return _narrow_text(text, source, result, saturate, round_mode)
    if result in (F16, BF16):
        return narrow(text if source in (F16, BF16, F32) else f"(float){text}", result)
    if source.is_float and result.is_integer:
        return f"cuvil::cast_float<{result.cxx}>({text})"
    return f"({result.cxx}){text}"


def _narrow_text(
    text: str, source: DType, result: DType, saturate: bool, round_mode: str
) -> str:
    if result in NARROW_INTEGERS:
        integer = f"cuvil::integral_part<int32_t>({text})" if source.is_float else text
        return f"cuvil::to_{result.name}((uint32_t){integer})"
    keep = "true" if saturate else "false"
    mode = f", cuvil::Round::{round_mode}" if result == F8E8M0 else ""
    real = text if source in (F16, BF16, F32) else f"(float){text}"
    return f"cuvil::to_{result.name}<{keep}{mode}>({real})"


def _scalar_cast(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
    return cast_text(args[0], types[0], result)


def _scalar_bitcast(args: Sequence[str], types: Sequence[DType], result: DType) -> str:
    if result == BOOL:
        return f"({args[0]} != 0)"
    return f"__builtin_bit_cast({result.cxx}, {args[0]})"


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.cast",
        "map",
        _infer_cast,
        _reference_cast,
        (1, 1),
        {"dtype": "dtype", "saturate": "bool?", "round_mode": "str?"},
        scalar=_scalar_cast,
        doc="Float to integer truncates, integers wrap; see Casts in the guide to ONNX.",
    ),
    OpDef(
        "cuvil.bitcast",
        "map",
        _infer_bitcast,
        _reference_bitcast,
        (1, 1),
        {"dtype": "dtype"},
        scalar=_scalar_bitcast,
        doc="The same bits as another type of the same width; to bool it is != 0.",
    ),
]
