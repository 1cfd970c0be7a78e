"""Writing into tensors by index, mask or diagonal."""

from __future__ import annotations

import numpy as np

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import choose, floor_divide
from cuvil.frontends.torch_export.table_select import after_zero
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64, DType
from cuvil.sym.expr import Dim

_KINDS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max",
          "amin": "min", "mean": "add"}  # fmt: skip


def _identity(kind: str, dtype: DType) -> float | int | bool:
    """What a reduction leaves unchanged."""
    if kind in ("add", "mul"):
        return 0 if kind == "add" else 1
    if dtype.is_float:
        return -np.inf if kind == "max" else np.inf
    if dtype == BOOL:
        return kind == "min"
    info = np.iinfo(dtype.numpy)
    return int(info.min if kind == "max" else info.max)


def reduce_into(
    c: Call, x: Value, index: Value, updates: Value, axis: int, reduce: str | None, *,
    include_self: bool = True,
) -> Value:  # fmt: skip
    """``x`` with ``updates`` written (reduce None) or reduced into it. Without ``include_self``
    the old values count only where nothing is written."""
    e, dtype = c.e, x.type.dtype
    if reduce is None:
        return e.op("scatter_elements", x, index, updates, axis=axis)
    if reduce not in _KINDS:
        raise Refused(f"scattering with reduce={reduce!r}")
    kind = _KINDS[reduce]
    base = x
    if not include_self:
        nothing = e.broadcast(e.scalar(_identity(kind, dtype), dtype), updates.type.shape)
        base = e.op("scatter_elements", x, index, nothing, axis=axis)
    if dtype == BOOL and kind in ("add", "mul"):
        kind = "max" if kind == "add" else "min"
    out = e.op("scatter_elements", base, index, updates, axis=axis, reduction=kind)
    if reduce != "mean":
        return out
    ones = e.broadcast(e.scalar(1, I64), updates.type.shape)
    start = e.broadcast(e.scalar(int(include_self), I64), x.type.shape)
    count = e.op("scatter_elements", start, index, ones, axis=axis, reduction="add")
    count = e.cast(e.with_scalar("max", count, 1), dtype)
    return e.op("div", out, count) if dtype.is_float else floor_divide(c, out, count)


def from_start(c: Call, index: Value, size: Dim) -> Value:
    """The same indices, looked up in 0, 1, 2, ...: a negative one is an error of the call."""
    if index.op is not None and index.op.short == "constant":
        return index
    line = c.e.op("iota", shape=(size,), axis=0, dtype=I64)
    return c.e.op("gather", line, c.e.cast(index, I64), axis=0, from_end=False)


def _scatter(c: Call) -> Value:
    """scatter, scatter_add and scatter_reduce"""
    e, x, index = c.e, c.first, c.tensor("index")
    source = c.args["src"] if "src" in c.args else c.args["value"]
    updates = c.as_value(source, x.type.dtype)
    if updates.type.rank == 0 and index.type.rank != 0:
        updates = e.broadcast(updates, index.type.shape)
    shape = x.type.shape
    axis = c.axis("dim")
    if not shape or not index.type.shape:
        x, index, updates = (v if v.type.shape else e.reshape(v, (1,)) for v in (x, index, updates))
    index = from_start(c, index, x.type.shape[axis])
    for i, (have, want) in enumerate(zip(updates.type.shape, index.type.shape, strict=True)):
        if have != want:
            updates = e.slice(updates, i, 0, want)
    mode = "sum" if c.name == "scatter_add" else c.get("reduce")
    keep = bool(c.get("include_self", True))
    out = reduce_into(c, x, index, updates, axis, mode, include_self=keep)
    return e.reshape(out, shape)


def _rows(default: str | None) -> Rule:
    """index_copy, index_fill, index_add and index_reduce: whole rows along an axis."""

    def rule(c: Call) -> Value:
        e, x, index = c.e, c.first, c.tensor("index")
        original = x.type.shape
        source = c.args["source"] if "source" in c.args else c.args["value"]
        updates = c.as_value(source, x.type.dtype)
        axis = c.axis("dim")
        if not original:
            x = e.reshape(x, (1,))
            updates = e.reshape(updates, (1,)) if updates.type.elements == 1 else updates
        alpha = c.get("alpha", 1)
        if alpha != 1:
            name = "and" if x.type.dtype == BOOL else "mul"
            updates = e.map(name, updates, c.as_value(alpha, x.type.dtype))
        if c.name != "index_fill":  # which alone counts negative ones from the end
            index = from_start(c, index, x.type.shape[axis])
        size = index.type.elements
        shape = tuple(size if i == axis else d for i, d in enumerate(x.type.shape))
        lines = [size if i == axis else 1 for i in range(x.type.rank)]
        at = e.broadcast(e.reshape(e.cast(index, I64), lines), shape)
        updates = e.broadcast(updates, shape)
        keep = bool(c.get("include_self", True))
        mode = c.get("reduce", default)
        out = reduce_into(c, x, at, updates, axis, mode, include_self=keep)
        return e.reshape(out, original)

    return rule


def _masked_scatter(c: Call) -> Value:
    """The elements of ``source`` in order, where the mask holds."""
    e, shape = c.e, c.shape
    x, mask = (e.broadcast(c.tensor(n), shape) for n in ("self", "mask"))
    source = c.tensor("source")
    if source.type.elements == 0:
        return x
    size = x.type.elements
    flags = e.cast(e.reshape(mask, [size]), I64)
    flat = after_zero(c, e.reshape(source, [source.type.elements]), 0)
    picked = e.op("gather", flat, e.op("cumsum", flags, axis=0), axis=0, from_end=False)
    return choose(c, mask, e.reshape(picked, shape), x)


def _put(c: Call) -> Value:
    """Writes at positions of the flat tensor; with ``accumulate`` it adds."""
    e, x, index = c.e, c.first, c.tensor("index")
    count = index.type.elements
    flat = e.reshape(x, [x.type.elements])
    updates = e.reshape(c.as_value(c["source"], x.type.dtype), [count])
    mode = "sum" if c.get("accumulate", False) else None
    out = reduce_into(c, flat, e.reshape(index, [count]), updates, 0, mode)
    return e.reshape(out, x.type.shape)


def _diagonal_scatter(c: Call) -> Value:
    """``src`` on a diagonal: spread over rows, chosen where column - row is the offset."""
    e, x = c.e, c.tensor("self")
    rank = x.type.rank
    a, b, shift = c.get("dim1", 0) % rank, c.get("dim2", 1) % rank, c.get("offset", 0)
    rest = [i for i in range(rank) if i not in (a, b)]
    moved = e.transpose(x, [*rest, a, b])
    *lead, rows, columns = moved.type.shape
    source = c.as_value(c["src"], x.type.dtype)
    if 0 in (source.type.shape[-1], rows, columns):
        return x
    row = e.op("iota", shape=(rows, 1), axis=0, dtype=I64)
    column = e.op("iota", shape=(1, columns), axis=1, dtype=I64)
    last = c.as_value(source.type.shape[-1] - 1, I64)
    at = e.with_scalar("add", e.reshape(row, (rows,)), min(shift, 0))
    at = e.map("min", e.with_scalar("max", at, 0), last)
    spread = e.unsqueeze(e.op("gather", source, at, axis=len(lead)), -1)
    hit = e.map("eq", e.map("sub", column, row), e.scalar(shift, I64))
    out = choose(c, hit, spread, moved)
    order = [*rest, a, b]
    return e.transpose(out, [order.index(i) for i in range(rank)])


def _renorm(c: Call) -> Value:
    """Slices along ``dim`` whose p-norm is above maxnorm are scaled down to it."""
    e, x, axis = c.e, c.first, c.axis("dim")
    p, limit = float(c.number("p")), float(c.number("maxnorm"))
    axes = tuple(i for i in range(x.type.rank) if i != axis)
    size = e.op("abs", x)
    if np.isinf(p):
        norm = e.op("reduce_max", size, axes=axes, keepdims=True)
    else:
        total = e.op("reduce_sum", e.with_scalar("pow", size, p), axes=axes, keepdims=True)
        norm = e.with_scalar("pow", total, 1 / p)
    ratio = e.map("div", e.scalar(limit, x.type.dtype), e.with_scalar("add", norm, 1e-7))
    factor = choose(c, e.with_scalar("gt", norm, limit), ratio, e.scalar(1, x.type.dtype))
    return e.map("mul", x, factor)


def _histc(c: Call) -> Value:
    """Counts in bins of equal width from min to max (of the data, where both are the same).
    What lies outside, NaN among it, isn't counted; the last bin has its upper end."""
    e, dtype = c.e, c.dtype
    bins = c.number("bins")
    x = e.reshape(e.cast(c.first, dtype), [c.first.type.elements])
    low, high = (e.scalar(float(c.number(n)), dtype) for n in ("min", "max"))
    if c.number("min") == c.number("max") and x.type.elements != 0:
        low, high = (e.op(f"reduce_{n}", x, axes=(0,), keepdims=False) for n in ("min", "max"))
    same = e.op("eq", low, high)
    low = choose(c, same, e.with_scalar("sub", low, 1), low)
    high = choose(c, same, e.with_scalar("add", high, 1), high)
    place = e.with_scalar("mul", e.map("sub", x, low), bins)
    at = e.cast(e.map("div", place, e.map("sub", high, low)), I64)
    at = e.with_scalar("max", e.with_scalar("min", at, bins - 1), 0)
    inside = e.map("and", e.map("ge", x, low), e.map("le", x, high))
    zeros = e.broadcast(e.scalar(0, dtype), (bins,))
    return e.op("scatter_elements", zeros, at, e.cast(inside, dtype), axis=0, reduction="add")


def _masked_index(c: Call) -> Value:
    """x[indices] where the mask holds, ``fill`` elsewhere, whatever the indices are there."""
    e, x, mask = c.e, c.tensor("self"), c.tensor("mask")
    at = [e.cast(choose(c, mask, i, e.scalar(0, i.type.dtype)), I64) for i in c["indices"]]
    shape = e.context.broadcast([v.type.shape for v in at], "index")
    parts = [e.unsqueeze(e.broadcast(v, shape), -1) for v in at]
    joined = parts[0] if len(parts) == 1 else e.op("concat", *parts, axis=len(shape))
    found = e.op("gather_nd", x, joined)
    extra = found.type.rank - len(shape)
    wide = e.reshape(e.broadcast(mask, shape), (*shape, *(1,) * extra))
    return choose(c, wide, found, c.as_value(c["fill"], x.type.dtype))


def _masked_index_put(c: Call) -> Value:
    """x[indices] += values where the mask holds."""
    e, x, mask = c.e, c.tensor("self"), c.tensor("mask")
    at = [e.cast(choose(c, mask, i, e.scalar(0, i.type.dtype)), I64) for i in c["indices"]]
    shape = e.context.broadcast([v.type.shape for v in at], "index")
    parts = [e.unsqueeze(e.broadcast(v, shape), -1) for v in at]
    joined = parts[0] if len(parts) == 1 else e.op("concat", *parts, axis=len(shape))
    tail = x.type.shape[len(at) :]
    values = e.broadcast(c.as_value(c["values"], x.type.dtype), (*shape, *tail))
    wide = e.reshape(e.broadcast(mask, shape), (*shape, *(1,) * len(tail)))
    values = choose(c, wide, values, e.scalar(0, x.type.dtype))
    adding = "max" if x.type.dtype == BOOL else "add"
    return e.op("scatter_nd", x, joined, values, reduction=adding)


RULES: dict[str, Rule] = {
    "scatter": _scatter, "scatter_add": _scatter, "scatter_reduce": _scatter,
    "index_copy": _rows(None), "index_fill": _rows(None), "index_add": _rows("sum"),
    "index_reduce": _rows("sum"),
    "masked_scatter": _masked_scatter, "put": _put, "diagonal_scatter": _diagonal_scatter,
    "renorm": _renorm, "histc": _histc,
    "_unsafe_masked_index": _masked_index,
    "_unsafe_masked_index_put_accumulate": _masked_index_put,
}  # fmt: skip
