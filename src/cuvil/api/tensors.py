"""Tensors that users give: those whose elements can be read, and as arrays."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cuvil.errors import InputError
from cuvil.errors.words import shown
from cuvil.runtime.arrays import is_torch_tensor

_FAR = "pass one with data, such as torch.zeros(shape)"
_ORDINARY = "pass an ordinary tensor"
# Types of torch without numbers, or of less than a byte: it stores them and has no operators.
_STORED = re.compile(r"torch\.(bits\w+|u?int[1-7]|float4\w+)")


def check_tensors(name: str, given: Any) -> None:
    """Raise InputError for a PyTorch tensor anywhere in ``given`` that doesn't hold its elements
    one by one: without data, sparse, nested, quantised, or a subclass that wraps others."""
    for place, tensor in _tensors(name, given):
        fault = _fault(tensor)
        if fault is not None:
            raise InputError(f"{place} {fault[0]}", hint=fault[1])


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if is_torch_tensor(value):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(f"{name}[{key!r}]", item)
    elif isinstance(value, (tuple, list)):
        for place, item in enumerate(value):
            yield from _tensors(f"{name}[{place}]", item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for key in (f.name for f in dataclasses.fields(value)):
            yield from _tensors(f"{name}.{key}", getattr(value, key, None))


def _fault(tensor: Any) -> tuple[str, str] | None:
    """What is wrong with a tensor, and what to do."""
    if _tells(tensor, "is_nested"):
        return "is a nested tensor", "pass tensor.to_padded_tensor(0.0), and the lengths beside it"
    if str(tensor.layout) != "torch.strided":
        return f"has layout {tensor.layout}", "pass tensor.to_dense()"
    if _tells(tensor, "is_quantized"):
        return f"is quantized, of {tensor.dtype}", "pass tensor.dequantize(), or tensor.int_repr()"
    if _STORED.fullmatch(str(tensor.dtype)):
        return f"has dtype {tensor.dtype}, which torch itself can't compute in", "convert it"
    kind = type(tensor).__name__
    if kind in ("UninitializedParameter", "UninitializedBuffer"):
        return f"is an {kind}, which has no shape yet", _ORDINARY
    if tensor.device.type == "meta":
        return "is on the device meta, without data", _FAR
    if kind == "FakeTensor":
        return "is a FakeTensor, without data", _FAR
    if _holds_nothing(tensor):
        return f"({kind}) has no memory to read", _ORDINARY
    return None


def _tells(tensor: Any, name: str) -> bool:
    return bool(getattr(tensor, name, False))


def _holds_nothing(tensor: Any) -> bool:
    """Whether a tensor has elements, and no address of them, as those have that wrap others."""
    try:
        return bool(tensor.numel()) and tensor.detach().data_ptr() == 0
    except (RuntimeError, TypeError):  # what torch, or a subclass, raises where there is none
        return True


def _complex(name: str, value: Any) -> Any:
    try:
        return value.detach().cpu().resolve_conj().resolve_neg().numpy()
    except TypeError:
        raise InputError(f"{name} is of {value.dtype}, which NumPy lacks") from None


def as_array(name: str, value: Any) -> Any:
    """An input as an array; a dict (a sparse one's parts) as it is. Raises InputError for what
    makes none."""
    if isinstance(value, Mapping):
        return value
    if is_torch_tensor(value):
        from cuvil.frontends.torch_export.weights import to_numpy

        check_tensors(name, value)
        if value.is_complex():
            return _complex(name, value)
        return to_numpy(value)  # bfloat16 too, which NumPy can't take from a tensor
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is {shown(value)}, which is no array: {error}") from error
