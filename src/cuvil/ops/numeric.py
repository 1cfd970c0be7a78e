"""What the references of several families share: wide arithmetic, rounding back, operand counts."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import TensorType
from cuvil.ops.base import Array, normalize_axis
from cuvil.sym.expr import evaluate

_FLOATS = frozenset({"float64", "float32", "float16", "bfloat16"})


def is_float(array: Array) -> bool:
    """Whether the elements are floats, bf16 among them; narrow floats are storage and aren't."""
    return array.dtype.name in _FLOATS


def wide(array: Array) -> Array:
    """Floats as f64; other dtypes unchanged."""
    return array.astype(np.float64) if is_float(array) else array


def comparable(array: Array) -> Array:
    """bf16 as f32, which NumPy can order; other dtypes unchanged."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def narrow_to(array: Array | np.generic, type: TensorType) -> Array:
    """Rounded (floats) or wrapped (integers) to the dtype of ``type``."""
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(type.dtype.numpy, copy=False)


def concrete(type: TensorType) -> tuple[int, ...]:
    """The shape of a type without symbols. Raises KeyError where one is left."""
    return tuple(evaluate(d, {}) for d in type.shape)


def axes_of(axes: Sequence[int], rank: int, name: str) -> tuple[int, ...]:
    """Axes as 0..rank-1, ascending. Raises InvalidModelError for one outside or given twice."""
    found = sorted(normalize_axis(a, rank, name) for a in axes) if rank else []
    if len(set(found)) != len(found):
        raise InvalidModelError(f"{name}: an axis is given twice in {tuple(axes)}")
    return tuple(found)


def need_float(type: TensorType, name: str) -> None:
    """Raises InvalidModelError unless the dtype is a float."""
    if not type.dtype.is_float:
        raise InvalidModelError(f"{name} is not defined for {type.dtype}")


def need_number(type: TensorType, name: str) -> None:
    """Raises InvalidModelError for a narrow dtype, which is stored and never computed with."""
    if type.dtype.is_narrow:
        raise InvalidModelError(f"{name} is not defined for {type.dtype}", hint="cast it first")


def need_operands(types: Sized, count: int, name: str) -> None:
    """Raises InvalidModelError unless the ``has_...`` flags and the operands agree."""
    if len(types) != count:
        message = f"{name}: its attributes ask for {count} operands, not {len(types)}"
        raise InvalidModelError(message)
