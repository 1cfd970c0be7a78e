"""Element types, constants and tensor types as ONNX has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from cuvil.ir.types import DType, TensorType, dtype_of

Array = np.ndarray[Any, Any]

_NAMES: Mapping[str, str] = {
    "f64": "DOUBLE", "f32": "FLOAT", "f16": "FLOAT16", "bf16": "BFLOAT16", "i64": "INT64",
    "i32": "INT32", "i16": "INT16", "i8": "INT8", "u64": "UINT64", "u32": "UINT32",
    "u16": "UINT16", "u8": "UINT8", "bool": "BOOL", "f8e4m3fn": "FLOAT8E4M3FN",
    "f8e4m3fnuz": "FLOAT8E4M3FNUZ", "f8e5m2": "FLOAT8E5M2", "f8e5m2fnuz": "FLOAT8E5M2FNUZ",
    "f8e8m0fnu": "FLOAT8E8M0", "f4e2m1fn": "FLOAT4E2M1", "i4": "INT4", "u4": "UINT4",
    "i2": "INT2", "u2": "UINT2",
}  # fmt: skip
# The first opset whose Cast has the type.
_SINCE: Mapping[str, int] = {
    "f8e4m3fn": 19, "f8e4m3fnuz": 19, "f8e5m2": 19, "f8e5m2fnuz": 19, "i4": 21, "u4": 21,
    "f4e2m1fn": 23, "f8e8m0fnu": 24, "i2": 25, "u2": 25,
}  # fmt: skip


def onnx_type(dtype: DType) -> int | None:
    """The number of ONNX's element type; None where it has none."""
    name = _NAMES.get(dtype.name)
    return None if name is None else int(getattr(TensorProto, name))


def first_opset(dtype: DType) -> int:
    """The first opset that has the type."""
    return _SINCE.get(dtype.name, 1)


def tensor_of(array: Array, name: str) -> TensorProto:
    """A constant."""
    tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
    assert tensor.data_type == onnx_type(dtype_of(array.dtype))
    return tensor


def raw_of(array: Array) -> Array:
    """The elements as ONNX stores them: those of less than a byte are packed."""
    if dtype_of(array.dtype).bits % 8 == 0:
        return array
    return np.frombuffer(tensor_of(array, "").raw_data, np.uint8)


def value_info(name: str, type: TensorType, symbols: bool = True) -> ValueInfoProto:
    """A named type; dims that are no numbers are left open unless ``symbols`` are wanted."""
    dims = [d if isinstance(d, int) else str(d) if symbols else None for d in type.shape]
    return helper.make_tensor_value_info(name, onnx_type(type.dtype) or 0, dims)
