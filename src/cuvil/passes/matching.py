"""Small questions that rules ask of the graph."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from cuvil.ir.core import Op, Value
from cuvil.ir.types import BF16, F32, I8, U8
from cuvil.ops.registry import registry
from cuvil.passes.stages import DECOMPOSED

Array = np.ndarray[Any, Any]

# Maps in a row between bytes and a reduction, at most.
_FARTHEST = 16


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


def widens_bytes(op: Op) -> bool:
    """Whether bytes are made wider here, and maps alone don't make bytes of them again."""
    if op.short != "cast" or not is_byte(op.operands[0]) or is_byte(op.result):
        return False
    seen: set[int] = set()
    work = [op]
    while work:
        users = work.pop().result.users
        if not users:
            return True
        for user in users:
            if _fusion(user) != "map":
                return True
            if id(user) not in seen and not is_byte(user.result):
                seen.add(id(user))
                work.append(user)
    return False


def widens_for_reduction(op: Op, cheap: Collection[str]) -> bool:
    """Whether ``op`` is one of few cheap maps, each read once, between bytes and a reduction."""
    at = op
    for _ in range(_FARTHEST):
        if not _read_once(at, cheap):
            return False
        (user,) = at.result.users
        if _fusion(user) == "reduce":
            break
        at = user
    else:
        return False
    at = op
    for _ in range(_FARTHEST):
        if not _read_once(at, cheap):
            return False
        computed = [v for v in at.operands if spread_constant(v) is None]
        if len(computed) != 1 or computed[0].op is None:
            return False
        if is_byte(computed[0]):
            return True
        at = computed[0].op
    return False


def _read_once(op: Op, cheap: Collection[str]) -> bool:
    return op.short in cheap and len(op.result.uses) == 1


def _fusion(op: Op) -> str:
    """The op's fusion class; "" for composites, which stand alone where they are left."""
    known = None if op.short in DECOMPOSED else registry().get(op.name)
    return "" if known is None else known.fusion


def is_byte(value: Value) -> bool:
    """Whether its elements are i8 or u8."""
    return value.type.dtype in (I8, U8)


def widens_halves(op: Op) -> bool:
    """Whether f32 is made of bf16 here: what reads it had better read that, half the bytes."""
    return op.short == "cast" and (op.operands[0].type.dtype, op.type.dtype) == (BF16, F32)


def all_operands(op: Op) -> list[Value]:
    """Operands of the op and, for ops with regions, of everything inside."""
    values = list(op.operands)
    for region in op.regions:
        for inner in region.ops:
            values += all_operands(inner)
    return values
