"""ONNX element types and tensors as Cuvil's dtypes and NumPy arrays.

Nothing of a tensor is trusted: its dims, its data length and where the data lies are checked
before an array of that size is made. Field names are those of onnx.proto3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.external import read_external
from cuvil.frontends.onnx.packed import normal, unpacked
from cuvil.ir.types import BF16, DTYPES, F16, F32, F64, I64, U32, U64, DType

Array = np.ndarray[Any, Any]

# By name, as onnx releases before 1.20 lack the newest.
_NAMES: Mapping[str, str] = {
    "FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16",
    "INT8": "i8", "INT16": "i16", "INT32": "i32", "INT64": "i64",
    "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "UINT64": "u64", "BOOL": "bool",
    "FLOAT8E4M3FN": "f8e4m3fn", "FLOAT8E4M3FNUZ": "f8e4m3fnuz", "FLOAT8E5M2": "f8e5m2",
    "FLOAT8E5M2FNUZ": "f8e5m2fnuz", "FLOAT8E8M0": "f8e8m0fnu", "FLOAT6E2M3": "f6e2m3fn",
    "FLOAT6E3M2": "f6e3m2fn", "FLOAT4E2M1": "f4e2m1fn",
    "INT4": "i4", "UINT4": "u4", "INT2": "i2", "UINT2": "u2",
}  # fmt: skip
_DTYPES: Mapping[int, DType] = {
    code: DTYPES[_NAMES[name]] for name, code in TensorProto.DataType.items() if name in _NAMES
}
_CODES: Mapping[DType, int] = {dtype: code for code, dtype in _DTYPES.items()}
_FIELDS: Mapping[DType, str] = {
    F32: "float_data",
    F64: "double_data",
    I64: "int64_data",
    U32: "uint64_data",
    U64: "uint64_data",
}


class UnsupportedType(Exception):
    """An element type Cuvil has no dtype for; ``str()`` is its ONNX name."""


def dtype_from(code: int) -> DType:
    """The dtype of a TensorProto.DataType code. Raises UnsupportedType."""
    found = _DTYPES.get(code)
    if found is None:
        raise UnsupportedType(type_name(code))
    return found


def code_of(dtype: DType) -> int:
    """The TensorProto.DataType code of a dtype."""
    return _CODES[dtype]


def type_name(code: int) -> str:
    """The ONNX name of a TensorProto.DataType code, such as ``STRING``."""
    try:
        return str(TensorProto.DataType.Name(code))
    except ValueError:
        return f"type {code}"


def tensor_array(tensor: TensorProto, folder: str | None = None) -> Array:
    """The data of a tensor, without a copy where its bytes are stored raw.

    ``folder`` is where external data may lie. Raises InvalidModelError where dims, data and type
    contradict each other, UnsupportedType for a type Cuvil has no dtype for.
    """
    dtype = dtype_from(tensor.data_type)
    shape = tuple(int(d) for d in tensor.dims)
    if any(d < 0 for d in shape):
        raise InvalidModelError(f"tensor {tensor.name!r} has a negative dimension: {shape}")
    count = math.prod(shape)
    if tensor.HasField("segment"):
        raise InvalidModelError(f"tensor {tensor.name!r} is stored in segments")
    size = -(-count * dtype.bits // 8)
    if tensor.data_location == TensorProto.EXTERNAL:
        raw: Any = read_external(tensor, folder, size)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        return _typed_array(tensor, dtype, count).reshape(shape)
    if len(raw) != size:
        raise InvalidModelError(
            f"tensor {tensor.name!r} of shape {shape} and type {dtype} needs "
            f"{size} bytes, it has {len(raw)}"
        )
    if dtype.bits < 8:
        return unpacked(np.frombuffer(raw, np.uint8), dtype, count).reshape(shape)
    array = np.frombuffer(raw, dtype.numpy.newbyteorder("<"))
    return array.astype(dtype.numpy, copy=False).reshape(shape)


def string_list(tensor: TensorProto) -> list[str] | None:
    """The elements of a tensor of strings, None for one of numbers. Raises InvalidModelError."""
    if tensor.data_type != TensorProto.STRING:
        return None
    count = math.prod(int(d) for d in tensor.dims)
    if len(tensor.string_data) != count or any(d < 0 for d in tensor.dims):
        raise InvalidModelError(
            f"tensor {tensor.name!r} needs {count} strings, it has {len(tensor.string_data)}"
        )
    try:
        return [text.decode() for text in tensor.string_data]
    except UnicodeDecodeError:
        raise InvalidModelError(f"tensor {tensor.name!r} holds text that is not UTF-8") from None


def _typed_array(tensor: TensorProto, dtype: DType, count: int) -> Array:
    field = getattr(tensor, _FIELDS.get(dtype, "int32_data"))
    packed = dtype.bits in (2, 4)  # a number holds a byte of them; one of 6 bits is a number
    expected = -(-count * dtype.bits // 8) if packed else count
    if len(field) != expected:
        raise InvalidModelError(
            f"tensor {tensor.name!r} needs {expected} {'bytes' if packed else 'elements'} of type "
            f"{dtype}, it has {len(field)}"
        )
    if dtype in (F16, BF16) or dtype.is_narrow:
        bits = np.array(field, dtype=np.int64).astype(f"u{dtype.size}")
        return unpacked(bits, dtype, count) if packed else normal(bits, dtype)
    wide = np.float64 if dtype.is_float else np.uint64 if dtype == U64 else np.int64
    with np.errstate(all="ignore"):
        return np.array(field, dtype=wide).astype(dtype.numpy)


def sparse_array(sparse: Any, folder: str | None, limit: int = 1 << 28) -> Array:
    """A SparseTensorProto as a dense array. ``limit`` bounds its number of elements."""
    shape = tuple(int(d) for d in sparse.dims)
    if any(d < 0 for d in shape) or math.prod(shape) > limit:
        raise InvalidModelError(
            f"sparse tensor {sparse.values.name!r}: shape {shape} is not usable"
        )
    values = tensor_array(sparse.values, folder)
    indices = tensor_array(sparse.indices, folder)
    dense = np.zeros(shape, values.dtype)
    try:
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = values
        else:
            dense[tuple(indices.T)] = values
    except (IndexError, ValueError) as error:
        raise InvalidModelError(f"sparse tensor {sparse.values.name!r}: {error}") from None
    return dense
