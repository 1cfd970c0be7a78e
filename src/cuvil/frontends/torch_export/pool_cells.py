"""Adaptive pooling where sizes are symbolic: the cells are found at run time and gathered.

Cell i of an axis covers floor(i * in / out) to ceil((i + 1) * in / out). Cells may differ by one
in their sizes; all are read at the width of the largest, by indices that stop at a cell's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuvil.frontends.torch_export.call import Call
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, add, floordiv, maximum, product


@dataclass(frozen=True)
class _Cells:
    """Of one axis: indices [out, width], which of them lie inside, and the sizes [out]."""

    places: Value
    inside: Value
    sizes: Value


def _cells(c: Call, size: Dim, out: Dim) -> _Cells:
    e = c.e
    e.context.require(size, ">=", 1, f"{c.name}: there is something to pool")
    width = add(floordiv(size, maximum(out, 1)), 2)
    have, wanted = c.as_value(size, I64), c.as_value(out, I64)
    line = e.op("iota", shape=(out,), axis=0, dtype=I64)
    start = e.map("floordiv", e.map("mul", line, have), wanted)
    beyond = e.map("mul", e.with_scalar("add", line, 1), have)
    beyond = e.map("add", beyond, e.with_scalar("sub", wanted, 1))
    end = e.map("floordiv", beyond, wanted)
    offset = e.op("iota", shape=(1, width), axis=1, dtype=I64)
    places = e.map("add", e.unsqueeze(start, 1), offset)
    ends = e.unsqueeze(end, 1)
    inside = e.map("lt", places, ends)
    last = e.with_scalar("sub", ends, 1)
    return _Cells(e.map("min", places, last), inside, e.map("sub", end, start))


def by_late_cells(c: Call, x: Value, axis: int, out: Dim, reduction: str) -> Value:
    """reduce_mean or reduce_max of each cell along one axis."""
    e, rank = c.e, x.type.rank
    cells = _cells(c, x.type.shape[axis], out)
    windows = e.op("gather", x, cells.places, axis=axis, from_end=False)
    if reduction == "reduce_max":
        return e.op("reduce_max", windows, axes=(axis + 1,), keepdims=False)
    after = (1,) * (rank - 1 - axis)
    inside = e.reshape(cells.inside, (*cells.inside.type.shape, *after))
    kept = e.map("select", inside, windows, e.scalar(0, x.type.dtype))
    total = e.op("reduce_sum", kept, axes=(axis + 1,), keepdims=False)
    sizes = e.reshape(cells.sizes, (out, *after))
    return e.map("div", total, e.cast(sizes, x.type.dtype))


def late_places_of_largest(c: Call, x: Value, sizes: Sequence[Dim]) -> Value:
    """The indices of the cells' maxima into the flattened trailing axes. An index that a cell
    repeats comes after itself, which changes neither the maximum nor its first place."""
    e, count = c.e, len(sizes)
    lead = x.type.rank - count
    have = x.type.shape[lead:]
    tables = [_cells(c, d, out).places for d, out in zip(have, sizes, strict=True)]
    for i, table in enumerate(tables):
        x = e.op("gather", x, table, axis=lead + 2 * i, from_end=False)
    outs = [lead + 2 * i for i in range(count)]
    x = e.transpose(x, [*range(lead), *outs, *(o + 1 for o in outs)])
    flat = e.scalar(0, I64)
    for i, (size, table) in enumerate(zip(have, tables, strict=True)):
        shape: list[Dim] = [1] * (2 * count)
        shape[i], shape[count + i] = table.type.shape
        flat = e.map("add", e.map("mul", flat, c.as_value(size, I64)), e.reshape(table, shape))
    flat = e.broadcast(flat, x.type.shape)
    ends = (*x.type.shape[: lead + count], product(x.type.shape[lead + count :]))
    windows, flat = e.reshape(x, ends), e.reshape(flat, ends)
    best = e.op("argmax", windows, axis=lead + count, keepdims=True)
    picked = e.op("gather_elements", flat, best, axis=lead + count)
    return e.cast(e.squeeze(picked, [-1]), I64)
