"""Sizes that depend on data: what binds them, and what is as large as they say.

Only ``sizes`` gives symbols their values; every other operator has ordinary symbolic dims. So the
number of elements that a mask picks is counted by a reduction and bound, and then ``positions``
has exactly that size: nothing is ever larger than its contents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import BOOL, I64, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext
from cuvil.ops.numeric import concrete
from cuvil.sym.expr import Expr


def _sizes_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    """Symbols that nobody has declared are free from 0 on."""
    names = [str(d) for d in attrs["binds"]]
    plain = all(isinstance(d, Expr) and str(d).isidentifier() for d in attrs["binds"])
    if not plain or len(set(names)) != len(names):
        raise InvalidModelError(f"sizes: {names} are not symbols that differ")
    if types[0].dtype != I64:
        raise InvalidModelError(f"sizes: {types[0]} does not hold i64")
    ctx.require(types[0].elements, "==", len(names), "sizes: a number for each symbol")
    for name in names:
        ctx.symbols.setdefault(name, (0, None))
    return []


def _sizes_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """Whoever interprets it reads the symbols' values off the operand."""
    return []


def _no_cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    return Cost(0)


def _positions_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    if types[0].dtype != BOOL or types[0].rank != 1:
        raise InvalidModelError(f"positions needs a vector of bool, got {types[0]}")
    ctx.require(attrs["size"], ">=", 0, "positions: how many")
    ctx.require(attrs["size"], "<=", types[0].elements, "positions: how many of the elements")
    return [TensorType((attrs["size"],), I64)]


def _positions_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    (size,) = concrete(results[0])
    found = np.flatnonzero(arrays[0])[:size]
    out = np.zeros(size, np.int64)
    out[: found.size] = found
    return [out]


def _positions_cost(
    operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs
) -> Cost:
    return Cost(operands[0].elements)


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.sizes", "control", _sizes_infer, _sizes_reference, (1, 1),
        {"binds": "dims", "what": "str?"}, cost=_no_cost,
        doc="Gives the symbols in ``binds`` the operand's elements as values, and checks them"
        " against their bounds. ``what`` says what they are, for errors.",
    ),
    OpDef(
        "cuvil.positions", "kernel", _positions_infer, _positions_reference, (1, 1),
        {"size": "dim"}, cost=_positions_cost,
        doc="Where the true elements of a vector are, the first ``size`` of them; 0 for those that"
        " there are not.",
    ),
]  # fmt: skip
