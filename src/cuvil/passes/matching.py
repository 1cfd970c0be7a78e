"""Small questions that rules ask of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvil.ir.core import Op, Value

Array = np.ndarray[Any, Any]


def defined_by(value: Value, *names: str) -> Op | None:
    """The op that makes ``value`` if it is one of ``names`` (without dialect)."""
    op = value.op
    return op if op is not None and op.short in names else None


def constant_of(value: Value) -> Array | None:
    """The data of a constant."""
    op = defined_by(value, "constant")
    return None if op is None else op.attrs["value"].array


def spread_constant(value: Value) -> Array | None:
    """The data of a constant seen through broadcasts and reshapes of it that only add or drop
    dimensions of size 1; its shape broadcasts to the value's shape."""
    op = value.op
    if op is None:
        return None
    if op.short == "constant":
        return op.attrs["value"].array  # type: ignore[no-any-return]
    if op.short == "broadcast":
        return spread_constant(op.operands[0])
    return None


def scalar_of(value: Value) -> float | int | bool | None:
    """The number if ``value`` is one constant number everywhere."""
    array = spread_constant(value)
    if array is None or array.size != 1:
        return None
    return array.reshape(()).item()  # type: ignore[no-any-return]


def per_channel(value: Value, axis: int) -> Array | None:
    """A spread constant that varies along ``axis`` of the value at most: shape [C] or [1]."""
    array = spread_constant(value)
    if array is None:
        return None
    lead = value.type.rank - array.ndim
    for i, size in enumerate(array.shape):
        if size != 1 and i + lead != axis:
            return None
    return array.reshape(-1)


def is_float_value(value: Value) -> bool:
    return value.type.dtype.is_float


def repeats_nothing(op: Op) -> bool:
    """Whether a broadcast has each element once: it only says that sizes are the same."""
    source, target = op.operands[0].type.shape, op.type.shape
    return len(source) == len(target) and not any(
        a == 1 != b for a, b in zip(source, target, strict=True)
    )
