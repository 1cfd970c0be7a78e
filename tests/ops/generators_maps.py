"""Calls of the elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import TensorType, dtype_of
from cuvil.ops import elementwise, integers, rounded
from cuvil.ops.base import OpDef, ShapeContext
from tests.ops.values import DTYPES, SHAPES, Array, Case, Rng, case, hostile, specials


def allowed(op: OpDef, dtype: str) -> bool:
    """Whether a map takes operands of this dtype, by its own type rule."""
    types = [TensorType((2,), dtype_of(dtype))] * op.operands[0]
    try:
        op.infer(ShapeContext(), types, {})
    except InvalidModelError:
        return False
    return True


def shapes_for(dtype: str) -> tuple[tuple[int, ...], ...]:
    """All shapes for f32, a few for the others."""
    return SHAPES if dtype == "float32" else SHAPES[4:6] + SHAPES[8:9]


def _pairs(dtype: str) -> tuple[Array, Array]:
    """Each special value with each."""
    values = specials(dtype)
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.reshape(-1), b.reshape(-1)


def _map(op: OpDef, rng: Rng) -> Iterator[Case]:
    arity = op.operands[0]
    for dtype in (d for d in DTYPES if allowed(op, d)):
        for shape in shapes_for(dtype):
            yield case(*(hostile(rng, shape, dtype) for _ in range(arity)))
        yield case(specials(dtype)) if arity == 1 else case(*_pairs(dtype))


def _shift(rng: Rng) -> Iterator[Case]:
    """Amounts inside and outside 0 .. bits - 1."""
    for dtype in ("int64", "int32", "uint8"):
        bits = np.dtype(dtype).itemsize * 8
        amounts = np.array([0, 1, 2, bits - 1, bits, bits + 1, 100], dtype)
        for shape in shapes_for(dtype):
            yield case(hostile(rng, shape, dtype), rng.choice(amounts, shape).astype(dtype))
        if dtype != "uint8":
            yield case(np.array([5, -5], dtype), np.array([-1, -bits], dtype))


def _select(rng: Rng) -> Iterator[Case]:
    for dtype in DTYPES:
        for shape in shapes_for(dtype):
            pick = rng.random(shape) < 0.5
            yield case(np.asarray(pick), hostile(rng, shape, dtype), hostile(rng, shape, dtype))


def _table() -> dict[str, Callable[[Rng], Iterator[Case]]]:
    table: dict[str, Callable[[Rng], Iterator[Case]]] = {}
    for op in (*elementwise.DEFS, *integers.DEFS, *rounded.DEFS):
        table[op.name.removeprefix("cuvil.")] = partial(_map, op)
    return {**table, "shl": _shift, "shr": _shift, "select": _select}


GENERATORS = _table()
