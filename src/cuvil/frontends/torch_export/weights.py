"""Parameters, buffers and constants of a program as NumPy arrays, without copies if possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from cuvil.errors import InputError, InvalidModelError
from cuvil.ir.types import BF16, DTYPES, DType, dtype_of

Array = np.ndarray[Any, Any]

_DTYPES: dict[torch.dtype, DType] = {
    getattr(torch, long): DTYPES[short]
    for long, short in {
        "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
        "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
        "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool",
        "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2": "f8e5m2",
        "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0fnu",
    }.items()
    if hasattr(torch, long)
}  # fmt: skip


def dtype_from_torch(dtype: torch.dtype) -> DType:
    """The element type. Raises InvalidModelError for complex and quantised ones, and for those
    of less than 8 bits."""
    found = _DTYPES.get(dtype)
    if found is None:
        known = ", ".join(map(str, _DTYPES.values()))
        raise InvalidModelError(f"tensors of {dtype} are not supported", hint=f"use one of {known}")
    return found


def to_numpy(tensor: torch.Tensor) -> Array:
    """The tensor's data; it shares memory where the tensor is contiguous and on the CPU."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    dtype = dtype_from_torch(plain.dtype)
    if dtype == BF16 or dtype.is_narrow:  # types of ml_dtypes, which torch doesn't know
        raw = plain.view(torch.int16 if dtype == BF16 else torch.uint8)
        return raw.numpy().view(dtype.numpy)
    return plain.numpy()


def to_tensor(array: Array) -> torch.Tensor:
    """The array's data as a tensor of its own; the inverse of :func:`to_numpy`."""
    plain = np.array(array, order="C")
    if plain.dtype.kind == "c":
        return torch.from_numpy(plain)
    if plain.dtype.kind in "OSUVMm" and plain.dtype.isbuiltin != 2:  # 2: of ml_dtypes
        raise InputError(f"torch has no tensors of NumPy's {plain.dtype}", hint="pass numbers")
    dtype = dtype_of(plain.dtype)
    if dtype == BF16 or dtype.is_narrow:
        found = next((k for k, v in _DTYPES.items() if v == dtype), None)
        if found is None:
            raise InvalidModelError(f"torch has no tensors of {dtype}")
        raw = torch.from_numpy(plain.view(np.int16 if dtype == BF16 else np.uint8))
        return raw.view(found)
    return torch.from_numpy(plain)


def saturates(dtype: DType) -> bool:
    """Whether this version of torch casts what is out of a narrow float's range to its end."""
    found = next(k for k, v in _DTYPES.items() if v == dtype)
    return bool(torch.tensor(1e30).to(found).to(torch.float32).isfinite())


class Weights:
    """Gives each placeholder's array; tensors that share their storage give one array object."""

    def __init__(self, program: ExportedProgram, prefix: str) -> None:
        self._tensors: dict[str, tuple[str, Any]] = {}
        self._arrays: dict[tuple[Any, ...], Array] = {}
        state, constants = program.state_dict, program.constants
        for item in program.graph_signature.input_specs:
            if item.kind.name not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                continue
            data = state[item.target] if item.target in state else constants[item.target]
            self._tensors[item.arg.name] = (item.target.removeprefix(prefix), data)

    def __contains__(self, placeholder: str) -> bool:
        return placeholder in self._tensors

    def get(self, placeholder: str) -> tuple[str, list[Array]]:
        """(name, [array]) of a weight placeholder; two arrays where it is complex."""
        name, tensor = self._tensors[placeholder]
        if tensor.is_complex():
            return name, [self._array(name, part) for part in (tensor.real, tensor.imag)]
        return name, [self._array(name, tensor)]

    def _array(self, name: str, tensor: Any) -> Array:
        key: tuple[Any, ...] = (
            tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())
        )  # fmt: skip
        if tensor.numel() == 0:
            key = (*key, name)
        if key not in self._arrays:
            self._arrays[key] = to_numpy(tensor)
        return self._arrays[key]
