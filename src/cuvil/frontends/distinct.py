"""Distinct values, or rows, of a tensor: composed of sorting, counting and picking."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value
from cuvil.ir.types import BF16, F16, F32, I64
from cuvil.sym.expr import Dim


@dataclass(frozen=True)
class Distinct:
    """``first`` [u]: where each value stands first; ``inverse`` [n]: the number of each element's
    value; ``count`` is u, a late symbol, ``total`` is n."""

    e: Emitter
    first: Value
    inverse: Value
    count: Dim
    total: Dim

    @cached_property
    def counts(self) -> Value:
        """[u]: how often each value stands there."""
        e = self.e
        zeros = e.broadcast(e.scalar(0, I64), (self.count,))
        ones = e.broadcast(e.scalar(1, I64), (self.total,))
        return e.op("scatter_elements", zeros, self.inverse, ones, axis=0, reduction="add")

    def by_appearance(self) -> Distinct:
        """The same with the values in the order in which they first appear."""
        e, count = self.e, self.count
        _, order = e.results("topk", self.first, k=count, axis=0, largest=False, sorted=True)
        places = _placed(e, order, count)
        first = e.op("gather", self.first, order, axis=0, from_end=False)
        inverse = e.op("gather", places, self.inverse, axis=0, from_end=False)
        return Distinct(e, first, inverse, count, self.total)


def distinct(e: Emitter, x: Value, *, equal_nan: bool) -> Distinct:
    """Of a vector, or of the rows of a matrix, in ascending order (NaN last)."""
    if x.type.dtype in (F16, BF16):
        x = e.cast(x, F32)
    total = x.type.shape[0]
    if x.type.rank == 1:
        _, order = e.results("topk", x, k=total, axis=0, largest=False, sorted=True)
    else:
        order = e.op("row_order", x)
    ordered = e.op("gather", x, order, axis=0, from_end=False)
    return grouped(e, ordered, order, equal_nan=equal_nan)


def grouped(e: Emitter, ordered: Value, order: Value, *, equal_nan: bool) -> Distinct:
    """Runs of equal neighbours; element i of ``ordered`` stood at ``order[i]``."""
    total = ordered.type.shape[0]
    line = e.op("iota", shape=(total,), axis=0, dtype=I64)
    before = e.with_scalar("max", e.with_scalar("sub", line, 1), 0)
    previous = e.op("gather", ordered, before, axis=0, from_end=False)
    differs = e.op("ne", ordered, previous)
    if equal_nan and ordered.type.dtype.is_float:
        both = e.op("and", e.op("ne", ordered, ordered), e.op("ne", previous, previous))
        differs = e.op("and", differs, e.op("not", both))
    if differs.type.rank > 1:
        axes = tuple(range(1, differs.type.rank))
        differs = e.op("reduce_any", differs, axes=axes, keepdims=False)
    starts = e.op("or", differs, e.with_scalar("eq", line, 0))
    at = e.positions(starts, "distinct", "the number of distinct values")
    numbers = e.with_scalar("sub", e.op("cumsum", e.cast(starts, I64), axis=0), 1)
    zeros = e.broadcast(e.scalar(0, I64), (total,))
    inverse = e.op("scatter_elements", zeros, order, numbers, axis=0)
    first = e.op("gather", order, at, axis=0, from_end=False)
    return Distinct(e, first, inverse, at.type.shape[0], total)


def _placed(e: Emitter, order: Value, count: Dim) -> Value:
    """The inverse of a permutation."""
    zeros = e.broadcast(e.scalar(0, I64), (count,))
    line = e.op("iota", shape=(count,), axis=0, dtype=I64)
    return e.op("scatter_elements", zeros, order, line, axis=0)
