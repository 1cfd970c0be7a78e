"""Slices and splits, and writes into slices (as functional scatters)."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, Expr, add, ceildiv, maximum, minimum, mul

_END = (1 << 63) - 1


def _bounds(c: Call, size: Dim) -> tuple[Dim, Dim, int | Expr]:
    start, stop, step = c.get("start", 0), c.args.get("end"), c.get("step", 1)
    if isinstance(start, Value) or isinstance(stop, Value):
        raise Refused("an end of the slice depends on data")
    if stop is None or (isinstance(stop, int) and stop >= _END):
        stop = size
    return start, stop, step


def from_end(c: Call, end: Dim, size: Dim) -> Dim:
    """A symbolic end that is surely negative counts from the back (a constant one is handled by
    the slice itself); one whose sign isn't known is required to have that of the example."""
    if isinstance(end, int):
        return end
    facts = c.e.context.facts
    if facts.nonnegative(end):
        return end
    if facts.nonnegative(add(mul(end, -1), -1)):
        return add(size, end)
    if c.e.simplify(add(size, end)) == 0:  # x[-n:] of n elements, also where n is 0
        return 0
    if (c.e.traced_size(end) or 0) < 0:
        c.e.context.require(end, "<", 0, f"{c.name}: {end} counts from the back")
        return add(size, end)
    c.e.context.require(end, ">=", 0, f"{c.name}: {end} doesn't count from the back")
    return end


def _slice(c: Call) -> Value:
    x = c.first
    axis = c.axis("dim") if c.get("dim") is not None else 0
    size = x.type.shape[axis]
    if c.get("step", 1) == 1 and any(isinstance(c.get(n), Value) for n in ("start", "end")):
        return _part_by_data(c, x, axis, c.args.get("start"), c.args.get("end"))
    start, stop, step = _bounds(c, size)
    start, stop = from_end(c, start, size), from_end(c, stop, size)
    if isinstance(step, Expr):
        return _strided(c, c.e.slice(x, axis, start, stop), axis, step)
    return c.e.slice(x, axis, start, stop, step)


def _strided(c: Call, x: Value, axis: int, step: Expr) -> Value:
    """x[::step] of a symbolic step: a gather."""
    c.e.context.require(step, ">=", 1, f"{c.name}: a step goes forward")
    count = ceildiv(x.type.shape[axis], step)
    line = c.e.op("iota", shape=(count,), axis=0, dtype=I64)
    places = c.e.map("mul", line, c.as_value(step, I64))
    return c.e.op("gather", x, places, axis=axis, from_end=False)


_End = Dim | Value | None


def _part_by_data(c: Call, x: Value, axis: int, begin: _End, end: _End) -> Value:
    """x[begin:end] where an end is a number of the data: its size is a late symbol."""
    e, size = c.e, x.type.shape[axis]
    whole = c.as_value(size, I64)
    start, stop = (_inside(c, at, whole) for at in (begin, end))
    first = e.scalar(0, I64) if start is None else start
    count = e.map("max", e.map("sub", whole if stop is None else stop, first), e.scalar(0, I64))
    most = size if isinstance(size, int) else None
    what = f"the size of a slice in dimension {axis}"
    (length,) = e.bind(e.reshape(count, (1,)), ["part"], what, [most])
    line = e.op("iota", shape=(length,), axis=0, dtype=I64)
    return e.op("gather", x, e.map("add", line, first), axis=axis)


def _inside(c: Call, end: _End, size: Value) -> Value | None:
    """An end as a number from 0 to the size; a negative one counts from the back."""
    if end is None or (isinstance(end, int) and end >= _END):
        return None
    e, zero = c.e, c.e.scalar(0, I64)
    at = e.reshape(c.as_value(end, I64), ())
    at = e.map("select", e.op("lt", at, zero), e.map("add", at, size), at)
    return e.map("min", e.map("max", at, zero), size)


def pick(c: Call, x: Value, axis: int, index: Dim) -> Value:
    """One entry along an axis, which goes away; a negative index counts from the back."""
    shape = x.type.shape
    if isinstance(index, int) and index < 0:
        index = add(shape[axis], index)
    elif isinstance(index, Expr) and not c.e.context.facts.nonnegative(index):
        negative = c.e.context.facts.nonnegative(add(mul(index, -1), -1))
        index = add(shape[axis], index) if negative else index
    why = f"{c.name}: the index lies inside dimension {axis}"
    c.e.context.require(index, ">=", 0, why)
    c.e.context.require(index, "<", shape[axis], why)
    starts = [index if i == axis else 0 for i in range(len(shape))]
    sizes = [1 if i == axis else d for i, d in enumerate(shape)]
    out = c.e.op("slice", x, start=tuple(starts), size=tuple(sizes), step=(1,) * len(shape))
    return c.e.reshape(out, [d for i, d in enumerate(shape) if i != axis])


def _select(c: Call) -> Value:
    index, axis = c["index"], c.axis("dim")
    if isinstance(index, Value):
        return c.e.op("gather", c.first, c.e.reshape(index, ()), axis=axis)
    return pick(c, c.first, axis, index)


def _narrow(c: Call) -> Value:
    start, length = c["start"], c["length"]
    if isinstance(start, Value):
        raise Refused("the start depends on data")
    axis = c.axis("dim")
    start = from_end(c, start, c.first.type.shape[axis])
    start = add(c.first.type.shape[axis], start) if isinstance(start, int) and start < 0 else start
    return cut(c, c.first, axis, start, length)


def _narrow_at(c: Call) -> Value:
    """A part whose start is in a tensor, picked by index; a negative start counts from the end."""
    e, start, axis = c.e, c.tensor("start"), c.axis("dim")
    size = c.as_value(c.first.type.shape[axis], I64)
    first = e.cast(start, I64)
    negative = e.op("lt", first, e.scalar(0, I64))
    first = e.map("select", negative, e.map("add", first, size), first)
    line = e.op("iota", shape=(c.shape[axis],), axis=0, dtype=I64)
    return e.op("gather", c.first, e.map("add", line, first), axis=axis)


def cut(c: Call, x: Value, axis: int, start: Dim, length: Dim) -> Value:
    """``length`` entries from ``start``, which lie inside."""
    shape = x.type.shape
    if start == 0 and length == shape[axis]:
        return x
    starts = [start if i == axis else 0 for i in range(len(shape))]
    sizes = [length if i == axis else d for i, d in enumerate(shape)]
    return c.e.op("slice", x, start=tuple(starts), size=tuple(sizes), step=(1,) * len(shape))


def _pieces(c: Call, axis: int, sizes: Sequence[Dim]) -> list[Value]:
    out: list[Value] = []
    start: Dim = 0
    for size in sizes:
        out.append(cut(c, c.first, axis, start, size))
        start = add(start, size)
    return out


def _split(c: Call) -> list[Value]:
    """All splits take the sizes of their pieces from torch, which knows their number."""
    axis = c.axis("dim") if "dim" in c.args else 0
    if c.name in ("hsplit", "dsplit"):
        axis = 2 if c.name == "dsplit" else min(c.first.type.rank - 1, 1)
    return _pieces(c, axis, [c.shape_of(i)[axis] for i in range(len(c.metas))])


def _tensor_split(c: Call) -> list[Value]:
    """Cut at indices, which may be the elements of a tensor."""
    at = c.args.get("tensor_indices_or_sections")
    if not isinstance(at, Value):
        return _split(c)
    if at.type.shape != (len(c.metas) - 1,):
        raise Refused("the number of the parts depends on data")
    x, axis = c.first, c.axis("dim")
    ends = [c.e.reshape(c.e.slice(at, 0, i, i + 1), ()) for i in range(len(c.metas) - 1)]
    parts = zip([0, *ends], [*ends, None], strict=True)
    return [_part_by_data(c, x, axis, begin, end) for begin, end in parts]


def _unbind(c: Call) -> list[Value]:
    axis = c.axis("dim")
    return [pick(c, c.first, axis, i) for i in range(len(c.metas))]


def _diagonal(c: Call) -> Value:
    """The diagonal goes last: a gather of the two axes flattened at i * columns + i."""
    x, e = c.first, c.e
    rank = x.type.rank
    a, b, shift = c.get("dim1", 0) % rank, c.get("dim2", 1) % rank, c.get("offset", 0)
    rest = [i for i in range(rank) if i not in (a, b)]
    moved = e.transpose(x, [*rest, a, b])
    *lead, rows, columns = moved.type.shape
    count = c.shape[-1]
    e.context.require(count, ">=", 0, f"{c.name}: the diagonal lies inside")
    flat = e.reshape(moved, [*lead, mul(rows, columns)])
    line = e.op("iota", shape=(count,), axis=0, dtype=I64)
    first = shift if shift >= 0 else mul(columns, -shift)
    at = e.map("mul", line, c.as_value(add(columns, 1), I64))
    at = e.map("add", at, c.as_value(first, I64))
    return e.op("gather", flat, at, axis=len(lead))


def _unfold(c: Call) -> Value:
    """Windows along an axis as a new last one: a gather at start * step + offset."""
    x, e = c.first, c.e
    axis = c.axis("dimension")
    size, step = c["size"], c["step"]
    if x.type.rank == 0:
        return e.broadcast(x, c.shape)
    count = c.shape[axis]
    first = e.op("iota", shape=(count, 1), axis=0, dtype=I64)
    offset = e.op("iota", shape=(1, size), axis=1, dtype=I64)
    at = e.map("add", e.map("mul", first, c.as_value(step, I64)), offset)
    out = e.op("gather", x, at, axis=axis)
    perm = [i for i in range(out.type.rank) if i != axis + 1] + [axis + 1]
    return e.transpose(out, perm)


def put_slice(c: Call, base: Value, part: Value, axis: int, start: Dim, step: int) -> Value:
    """``base`` with ``part`` written at start, start + step, ... along an axis."""
    e = c.e
    size, count = base.type.shape[axis], part.type.shape[axis]
    if size == count and start == 0 and step == 1:
        return part
    if step == 1:
        head = e.slice(base, axis, 0, start)
        tail = cut(c, base, axis, add(start, count), add(size, mul(add(start, count), -1)))
        parts = [v for v in (head, part, tail) if v.type.shape[axis] != 0]
        return parts[0] if len(parts) == 1 else e.op("concat", *parts, axis=axis)
    shape = tuple(1 if i != axis else count for i in range(base.type.rank))
    line = e.op("iota", shape=shape, axis=axis, dtype=I64)
    at = e.map("add", e.with_scalar("mul", line, step), c.as_value(start, I64))
    index = e.broadcast(at, part.type.shape)
    return e.op("scatter_elements", base, index, part, axis=axis)


def _slice_scatter(c: Call) -> Value:
    base, part = c.tensor("self"), c.tensor("src")
    axis = c.axis("dim")
    size = base.type.shape[axis]
    start, _, step = _bounds(c, size)
    if not isinstance(step, int):
        raise Refused("writing with a symbolic step")
    start = from_end(c, start, size)
    if isinstance(start, int) and start < 0:
        start = maximum(add(size, start), 0)
    start = c.e.simplify(minimum(start, size))
    shape = tuple(part.type.shape[i] if i == axis else d for i, d in enumerate(base.type.shape))
    return put_slice(c, base, c.e.broadcast(part, shape), axis, start, step)


def _select_scatter(c: Call) -> Value:
    base, axis, index = c.tensor("self"), c.axis("dim"), c["index"]
    if isinstance(index, Value):
        raise Refused("the index depends on data")
    if isinstance(index, int) and index < 0:
        index = add(base.type.shape[axis], index)
    shape = tuple(1 if i == axis else d for i, d in enumerate(base.type.shape))
    part = c.e.unsqueeze(c.as_value(c["src"], base.type.dtype), axis)
    return put_slice(c, base, c.e.broadcast(part, shape), axis, index, 1)


def _diag_embed(c: Call) -> Value:
    """The last axis on the diagonal of two new ones, by comparing row and column."""
    x, e = c.first, c.e
    rank = x.type.rank + 1
    shift = c.get("offset", 0)
    a, b = c.get("dim1", -2) % rank, c.get("dim2", -1) % rank
    if shift != 0 or b != a + 1 or b != rank - 1:
        raise Refused("diag_embed off the main diagonal or into inner axes")
    n = x.type.shape[-1]
    row = e.op("iota", shape=(n, n), axis=0, dtype=I64)
    column = e.op("iota", shape=(n, n), axis=1, dtype=I64)
    wide = e.broadcast(e.unsqueeze(x, -1), c.shape)
    return e.map("select", e.op("eq", row, column), wide, e.scalar(0, x.type.dtype))


_SPLITS = ("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk",
           "split_copy", "split_with_sizes_copy", "unsafe_split_with_sizes", "vsplit",
           "hsplit", "dsplit")  # fmt: skip

RULES: dict[str, Rule] = {
    "slice": _slice, "slice_copy": _slice,
    "select": _select, "select_copy": _select,
    "narrow": _narrow, "narrow_copy": _narrow, "narrow_at": _narrow_at,
    **dict.fromkeys(_SPLITS, _split), "tensor_split": _tensor_split,
    "unbind": _unbind, "unbind_copy": _unbind,
    "diagonal": _diagonal, "diagonal_copy": _diagonal, "linalg_diagonal": _diagonal,
    "unfold": _unfold, "unfold_copy": _unfold,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "diag_embed": _diag_embed,
}  # fmt: skip
