"""Arrays of NumPy, PyTorch and anything with DLPack, as addresses in memory.

PyTorch is never imported here: a tensor can only come from a process that has it.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from cuvil.errors import InputError, NoMemoryError
from cuvil.errors.arguments import is_list, whole
from cuvil.errors.words import shown
from cuvil.ir.signature import TensorSpec

_from_buffer: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer
_SIZE = whole(0)
_ALL_MEMORY = 1 << 58  # words of 8 bytes: more than any address of today's CPUs
_TORCH_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu",
}  # fmt: skip


@dataclass(frozen=True)
class Slot:
    """One input or output; ``dtype`` None where NumPy has no such type in this process."""

    role: str
    name: str
    element: str
    dtype: np.dtype[Any] | None
    size: int

    @staticmethod
    def of(spec: TensorSpec, role: str) -> Slot:
        try:
            dtype: np.dtype[Any] | None = spec.element.numpy
        except ImportError:
            dtype = None
        return Slot(role, spec.name, spec.dtype, dtype, spec.element.size)

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"

    def numpy_dtype(self) -> np.dtype[Any]:
        """Raises InputError where NumPy has no such type."""
        if self.dtype is None:
            raise InputError(
                f"{self} is {self.element}, which NumPy has only with the package ml_dtypes",
                hint="pip install ml_dtypes, or pass PyTorch tensors",
            )
        return self.dtype


class View(NamedTuple):
    """A tensor's memory, row major and aligned; ``keep`` holds it alive."""

    address: int
    shape: tuple[int, ...]
    keep: Any
    is_torch: bool = False


@lru_cache(maxsize=1)
def data_pointers() -> Sequence[int] | None:
    """Where array objects hold their data: element ``id(array) >> 3`` is the address of the
    first. None where that is unknown.

    In CPython the pointer follows the object header (PyArrayObject_fields in NumPy's C interface,
    fixed since NumPy 1.0). Reading it there is ten times faster than asking the array, and one
    view of all memory is faster than a view of each pointer.
    """
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    words = (ctypes.c_uint64 * _ALL_MEMORY).from_address(object.__basicsize__)
    memory = memoryview(words).cast("B").cast("Q")
    for array in (np.empty(3, np.float32), np.empty((2, 5), np.uint8)[1:]):
        place = id(array)
        if place & 7 or memory[place >> 3] != array.__array_interface__["data"][0]:
            return None
    return memory


def taker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What takes the values of these names out of a mapping, in order. It raises KeyError."""
    if len(names) > 1:
        return operator.itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where the array's first element lies."""
    if array.flags.writeable and array.size:
        try:  # several times faster than the general way
            return ctypes.addressof(_from_buffer(array))
        except (TypeError, ValueError, BufferError):
            pass  # strided, or of a type that the buffer protocol has no letter for
    return int(array.__array_interface__["data"][0])


def view_input(value: Any, slot: Slot) -> View:
    """The memory of an input, of a copy of it where it is strided, misaligned or byte-swapped.

    Raises InputError for anything but a CPU array of exactly the slot's dtype.
    """
    if is_torch_tensor(value):
        return _view_torch(value, slot)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        value = _from_dlpack(value, slot)
    if is_masked(value):
        raise InputError(f"{slot} is a masked array", hint="pass array.filled(...) instead")
    array = np.asarray(value)
    expected = slot.numpy_dtype()
    if array.dtype != expected:
        native = array.dtype.newbyteorder("=")
        if native != expected:
            raise wrong_dtype(slot, str(array.dtype), f".astype({_spelt(expected)})")
        array = _as_new(array, slot, native)
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = _as_new(array, slot, expected)
    return View(address_of(array), array.shape, array)


def _as_new(
    array: np.ndarray[Any, Any], slot: Slot, dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """A row-major copy."""
    try:
        return array.astype(dtype, order="C")
    except MemoryError:
        raise _too_large(slot, array.shape, "a row-major copy of ") from None


def _too_large(slot: Slot, shape: Sequence[int], what: str = "") -> NoMemoryError:
    size = math.prod(shape) * slot.size
    return NoMemoryError(
        f"no memory for {what}{slot}, {list(shape)} of {slot.element}: {size} bytes",
        hint="pass smaller inputs",
    )


def _spelt(dtype: np.dtype[Any]) -> str:
    """The dtype as Python code."""
    module = "np" if dtype.isbuiltin == 1 else "ml_dtypes"
    return f"{module}.{dtype.name}{'_' if dtype.kind == 'b' else ''}"


def shape_of(value: Any, name: str) -> tuple[int, ...]:
    """The shape that is given for an input, as an array of it or as sizes. Raises InputError for
    anything else."""
    shape = getattr(value, "shape", value)
    if not is_list(shape) or not all(map(_SIZE.fits, shape)):
        raise InputError(
            f"input {name!r} is {shown(value)}", hint="give an array, or a shape such as (1, 3)"
        )
    return tuple(shape)


def is_masked(value: np.ndarray[Any, Any]) -> bool:
    """Whether an array hides some of its elements."""
    masked = sys.modules.get("numpy.ma")  # np.ma would import it, which takes milliseconds
    return masked is not None and isinstance(value, masked.MaskedArray)


def _from_dlpack(value: Any, slot: Slot) -> np.ndarray[Any, Any]:
    if value is None:
        raise InputError(
            f"{slot} is None; it was an array when the model was compiled",
            hint="pass an array, or compile the model again with None there for calls without it",
        )
    if not hasattr(value, "__dlpack__"):
        raise InputError(
            f"{slot} is {type(value).__module__}.{type(value).__qualname__}, not an array",
            hint=f"pass a NumPy array, np.asarray(value, {_spelt(slot.numpy_dtype())})",
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{slot} can't be taken over through DLPack: {error}",
            hint="pass an array in CPU memory",
        ) from None


def is_torch_tensor(value: Any) -> bool:
    """Whether it is a PyTorch tensor; False in a process without PyTorch."""
    kind = tensor_class()
    return kind is not None and isinstance(value, kind)


def tensor_class() -> type | None:
    """PyTorch's tensors; None in a process without PyTorch."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


def torch_dtype_of(slot: Slot) -> Any:
    """PyTorch's dtype, or None where this PyTorch has none."""
    return getattr(sys.modules["torch"], _TORCH_NAMES.get(slot.element, ""), None)


def torch_dtype(slot: Slot) -> Any:
    """PyTorch's dtype. Raises InputError where this PyTorch has none."""
    found = torch_dtype_of(slot)
    if found is None:
        raise InputError(f"this version of PyTorch has no type for {slot} ({slot.element})")
    return found


def _view_torch(value: Any, slot: Slot) -> View:
    torch = sys.modules["torch"]
    if not value.is_cpu:
        raise InputError(f"{slot} is on device {value.device}", hint="pass tensor.cpu()")
    if value.layout is not torch.strided:
        raise InputError(f"{slot} has layout {value.layout}", hint="pass tensor.to_dense()")
    if value.dtype is not torch_dtype(slot):
        raise wrong_dtype(slot, str(value.dtype), f".to(torch.{_TORCH_NAMES[slot.element]})")
    try:
        if value.requires_grad:
            value = value.detach()
        if not value.is_contiguous() or value.is_neg():
            value = value.resolve_neg().contiguous()
        address = value.data_ptr()
        if address % slot.size:
            value = value.clone()
            address = value.data_ptr()
        missing = address == 0 and value.numel() > 0  # such as zeros that are not stored
        view = View(address, value.shape, value, True)
    except (RuntimeError, ValueError) as error:  # the latter of parameters without a shape yet
        raise _without_memory(value, slot, f": {error}") from None
    if missing:
        raise _without_memory(value, slot)
    return view


def _without_memory(value: Any, slot: Slot, why: str = "") -> InputError:
    return InputError(
        f"{slot} ({type(value).__name__}) has no memory to read{why}",
        hint="pass an ordinary tensor",
    )


def wrong_dtype(slot: Slot, given: str, cast: str) -> InputError:
    """The error for a dtype that isn't the slot's; nothing is cast silently."""
    return InputError(
        f"{slot} has dtype {given}; expected {slot.element}",
        hint=f"convert it yourself if that is meant: {slot.name}{cast}",
    )


def new_output(slot: Slot, shape: tuple[int, ...], as_torch: bool) -> View:
    """Memory for an output, owned by the array in ``keep``; NumPy's if torch has no such type.

    Raises NoMemoryError if there is not that much."""
    if as_torch and torch_dtype_of(slot) is not None:
        try:
            # In CPU memory whatever the default device is.
            tensor = sys.modules["torch"].empty(shape, dtype=torch_dtype_of(slot), device="cpu")
        except (RuntimeError, MemoryError):  # which of them is torch's choice
            raise _too_large(slot, shape) from None
        return View(tensor.data_ptr(), shape, tensor, True)
    dtype = slot.numpy_dtype()
    try:
        array = np.empty(shape, dtype)
    except MemoryError:
        raise _too_large(slot, shape) from None
    return View(address_of(array), shape, array)


def array_of(view: View, slot: Slot) -> np.ndarray[Any, Any]:
    """The memory of a view as a NumPy array, whichever kind of tensor holds it."""
    if not view.is_torch:
        return cast("np.ndarray[Any, Any]", view.keep)
    # As bytes: PyTorch hands NumPy no bf16 nor f8.
    data = view.keep.reshape(-1).view(sys.modules["torch"].uint8).numpy()
    found: np.ndarray[Any, Any] = data.view(slot.numpy_dtype()).reshape(view.shape)
    return found


def view_output(value: Any, slot: Slot, shape: tuple[int, ...]) -> View:
    """The memory of a caller's array to write to.

    Raises InputError unless it has exactly the dtype and shape, is row major and writable.
    """
    if is_torch_tensor(value):
        torch = sys.modules["torch"]
        if getattr(value, "is_nested", False):
            raise InputError(f"out for {slot} is a nested tensor", hint="pass an ordinary tensor")
        ready = value.is_cpu and value.layout is torch.strided
        ready = ready and value.is_contiguous() and not value.is_neg()
        ready = ready and not value.requires_grad
        same = value.dtype is torch_dtype(slot)
    elif isinstance(value, np.ndarray) and not is_masked(value):
        flags = value.flags
        ready = flags.c_contiguous and flags.writeable and flags.aligned
        same = value.dtype == slot.numpy_dtype()
    else:
        raise InputError(f"out for {slot} is {type(value).__name__}, not an array")
    if not same:
        raise InputError(f"out for {slot} has dtype {value.dtype}; expected {slot.element}")
    if tuple(value.shape) != shape:
        raise InputError(f"out for {slot} has shape {list(value.shape)}; expected {list(shape)}")
    if not ready:
        raise InputError(
            f"out for {slot} can't be written to as it is",
            hint="pass a row-major, aligned, writable array in CPU memory that needs no gradient",
        )
    if isinstance(value, np.ndarray):
        return View(address_of(value), shape, value)
    return View(_place_of(value, slot), shape, value, True)


def _place_of(value: Any, slot: Slot) -> int:
    """Where an output tensor's memory is. Raises InputError for one that has none of its own."""
    try:
        address = int(value.data_ptr())
    except RuntimeError:
        address = 0
    if address == 0 and value.numel() > 0:
        raise InputError(
            f"out for {slot} ({type(value).__name__}) has no memory to write to",
            hint="pass an ordinary tensor",
        )
    return address


def complex_of(parts: Any) -> Any:
    """An output [..., 2] of real and imaginary parts as complex numbers."""
    if is_torch_tensor(parts):
        return sys.modules["torch"].view_as_complex(parts)
    array = np.ascontiguousarray(parts)
    return array.view(np.dtype(f"c{2 * array.dtype.itemsize}"))[..., 0]


def parts_of(value: Any) -> Any:
    """A complex input as its real and imaginary parts [..., 2]; a real one as it is."""
    if is_torch_tensor(value):
        if not value.is_complex():
            return value
        return sys.modules["torch"].view_as_real(value.resolve_conj())
    if isinstance(value, np.ndarray) and value.dtype.kind == "c":
        real = np.dtype(f"f{value.dtype.itemsize // 2}")
        return np.ascontiguousarray(value).reshape(*value.shape, 1).view(real)
    return value
