"""Element types and tensor types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cuvil.sym.expr import Dim, product, substitute, symbols_of

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class DType:
    """An element type: its MLIR-like name, kind, size in bytes and C++ spelling.

    ``kind`` is "f" float, "i" signed, "u" unsigned, "b" bool or "n" narrow. A bool is one byte, 0
    or 1; a 16-bit float is kept as its bits. Narrow types are storage: they are moved and cast,
    never computed with, and each element is a byte that holds its bits (the rest of it is
    ignored when read).
    """

    name: str
    kind: str
    size: int
    cxx: str

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; bf16 and the narrow types need the package ml_dtypes."""
        text = _ML_DTYPES.get(self.name)
        if text is not None:
            import ml_dtypes

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, text))
            return found
        return np.dtype(_NUMPY[self.name])

    @property
    def bits(self) -> int:
        """Bits that hold an element's value."""
        return _SUB_BYTE.get(self.name, 8 * self.size)

    @property
    def is_narrow(self) -> bool:
        return self.kind == "n"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    def __str__(self) -> str:
        return self.name


F64 = DType("f64", "f", 8, "double")
F32 = DType("f32", "f", 4, "float")
F16 = DType("f16", "f", 2, "uint16_t")
BF16 = DType("bf16", "f", 2, "uint16_t")
I64 = DType("i64", "i", 8, "int64_t")
I32 = DType("i32", "i", 4, "int32_t")
I16 = DType("i16", "i", 2, "int16_t")
I8 = DType("i8", "i", 1, "int8_t")
U64 = DType("u64", "u", 8, "uint64_t")
U32 = DType("u32", "u", 4, "uint32_t")
U16 = DType("u16", "u", 2, "uint16_t")
U8 = DType("u8", "u", 1, "uint8_t")
BOOL = DType("bool", "b", 1, "bool")
# Floats by their exponent and mantissa bits: fn has no infinity, fnuz no negative zero either.
F8E4M3FN = DType("f8e4m3fn", "n", 1, "uint8_t")
F8E4M3FNUZ = DType("f8e4m3fnuz", "n", 1, "uint8_t")
F8E5M2 = DType("f8e5m2", "n", 1, "uint8_t")
F8E5M2FNUZ = DType("f8e5m2fnuz", "n", 1, "uint8_t")
F8E8M0 = DType("f8e8m0fnu", "n", 1, "uint8_t")
F6E2M3 = DType("f6e2m3fn", "n", 1, "uint8_t")
F6E3M2 = DType("f6e3m2fn", "n", 1, "uint8_t")
F4E2M1 = DType("f4e2m1fn", "n", 1, "uint8_t")
I4 = DType("i4", "n", 1, "uint8_t")
U4 = DType("u4", "n", 1, "uint8_t")
I2 = DType("i2", "n", 1, "uint8_t")
U2 = DType("u2", "n", 1, "uint8_t")

_FLOATS = (F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F6E2M3, F6E3M2, F4E2M1)
_INTEGERS = (I4, U4, I2, U2)
NARROW_FLOATS = frozenset(_FLOATS)
NARROW_INTEGERS = frozenset(_INTEGERS)

DTYPES: Mapping[str, DType] = {
    d.name: d
    for d in (
        F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL,
        *_FLOATS, *_INTEGERS,
    )
}  # fmt: skip
_NUMPY: Mapping[str, str] = {
    "f64": "float64", "f32": "float32", "f16": "float16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip
_ML_DTYPES: Mapping[str, str] = {
    "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu",
    "f6e2m3fn": "float6_e2m3fn", "f6e3m2fn": "float6_e3m2fn", "f4e2m1fn": "float4_e2m1fn",
    "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
}  # fmt: skip
_SUB_BYTE: Mapping[str, int] = {
    "f6e2m3fn": 6, "f6e3m2fn": 6, "f4e2m1fn": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2,
}  # fmt: skip
_FROM_NUMPY: Mapping[str, DType] = {
    text: DTYPES[name] for name, text in (*_NUMPY.items(), *_ML_DTYPES.items())
}
_DLPACK_CODES: Mapping[str, int] = {
    "bf16": 4, "f8e4m3fn": 10, "f8e4m3fnuz": 11, "f8e5m2": 12, "f8e5m2fnuz": 13, "f8e8m0fnu": 14,
    "f6e2m3fn": 15, "f6e3m2fn": 16, "f4e2m1fn": 17, "i4": 0, "i2": 0, "u4": 1, "u2": 1,
}  # fmt: skip


def dlpack_code(dtype: DType) -> int:
    """DLPack's type code: 0 int, 1 unsigned, 2 float, 6 bool, else of the type (dlpack.h, 1.1)."""
    found = _DLPACK_CODES.get(dtype.name)
    return {"i": 0, "u": 1, "f": 2, "b": 6}[dtype.kind] if found is None else found


def dtype_of(array_dtype: Any) -> DType:
    """The element type of a NumPy dtype. Raises KeyError for one Cuvil has no type for."""
    return _FROM_NUMPY[np.dtype(array_dtype).name]


@dataclass(frozen=True)
class TensorType:
    """Dimensions (integers or expressions over symbols) and an element type."""

    shape: Shape
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def elements(self) -> Dim:
        """The number of elements, possibly symbolic."""
        return product(self.shape)

    @cached_property
    def is_empty(self) -> bool:
        """Whether it is known to have no element."""
        return 0 in self.shape

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(self.shape, dtype)

    def substitute(self, table: Mapping[str, Dim]) -> TensorType:
        """Symbols replaced by expressions or integers."""
        return TensorType(tuple(substitute(d, table) for d in self.shape), self.dtype)

    def symbols(self) -> set[str]:
        found: set[str] = set()
        for d in self.shape:
            found |= symbols_of(d)
        return found

    def __str__(self) -> str:
        dims = ", ".join(str(d) for d in self.shape)
        return f"!cuvil.tensor<[{dims}] x {self.dtype}>"
