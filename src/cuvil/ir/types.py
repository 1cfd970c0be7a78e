"""Element types and tensor types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.sym.expr import Dim, product, substitute, symbols_of

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class DType:
    """An element type: its MLIR-like name, kind, size in bytes and C++ spelling.

    ``kind`` is "f" float, "i" signed, "u" unsigned or "b" bool. A bool is one byte, 0 or 1; a
    16-bit float is kept as its bits.
    """

    name: str
    kind: str
    size: int
    cxx: str

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; bf16 needs the package ml_dtypes."""
        if self.name == "bf16":
            import ml_dtypes

            bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        return np.dtype(_NUMPY[self.name])

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

DTYPES: Mapping[str, DType] = {
    d.name: d
    for d in (F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL)
}
_NUMPY: Mapping[str, str] = {
    "f64": "float64", "f32": "float32", "f16": "float16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip
_FROM_NUMPY: Mapping[str, DType] = {
    **{text: DTYPES[name] for name, text in _NUMPY.items()},
    "bfloat16": BF16,
}


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

    @property
    def elements(self) -> Dim:
        """The number of elements, possibly symbolic."""
        return product(self.shape)

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
