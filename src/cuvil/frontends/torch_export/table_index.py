"""Reading and writing by index tensors, ordering."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import choose
from cuvil.frontends.torch_export.table_select import after_zero, with_masks
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64
from cuvil.sym.expr import Dim, Expr


def _embedding(c: Call) -> Value:
    return c.e.op("gather", c.tensor("weight"), c.tensor("indices"), axis=0, from_end=False)


def _index_select(c: Call) -> Value:
    x, index = c.first, c.tensor("index")
    if x.type.rank == 0:
        return x
    flat = c.e.reshape(index, [index.type.elements])
    return c.e.op("gather", x, flat, axis=c.axis("dim"), from_end=False)


def _gather(c: Call) -> Value:
    """torch.gather reads a part of the other axes where the index is smaller there."""
    x, index, axis = c.first, c.tensor("index"), c.axis("dim")
    if 0 in index.type.shape:  # torch lets an empty index have any rank
        return c.e.broadcast(c.e.scalar(0, x.type.dtype), index.type.shape)
    if x.type.rank == 0:
        return c.e.reshape(x, index.type.shape)
    return c.e.op("gather_elements", x, index, axis=axis, from_end=False)


def _take_along_dim(c: Call) -> Value:
    x, index = c.first, c.tensor("indices")
    if c.args.get("dim") is None:
        flat = c.e.reshape(x, [x.type.elements])
        return c.e.op("gather", flat, c.e.reshape(index, [index.type.elements]), axis=0)
    axis = c.axis("dim")
    shape = c.shape
    wide = [d if i != axis else x.type.shape[i] for i, d in enumerate(shape)]
    x, index = c.e.broadcast(x, tuple(wide)), c.e.broadcast(index, shape)
    return c.e.op("gather_elements", x, index, axis=axis)


def _take(c: Call) -> Value:
    flat = c.e.reshape(c.first, [c.first.type.elements])
    return c.e.op("gather", flat, c.tensor("index"), axis=0)


def _indexed_axes(indices: Sequence[Value | None]) -> list[int]:
    return [i for i, index in enumerate(indices) if index is not None]


def _joined(c: Call, indices: Sequence[Value]) -> Value:
    """Broadcast index tensors as the last axis of one: [..., number of indices]. Negative ones
    stay: what reads or writes by them counts them from the end, once."""
    shape = c.e.context.broadcast([i.type.shape for i in indices], "index")
    wide = [c.e.broadcast(c.e.cast(i, I64), shape) for i in indices]
    parts = [c.e.unsqueeze(i, -1) for i in wide]
    return parts[0] if len(parts) == 1 else c.e.op("concat", *parts, axis=len(shape))


def _index(c: Call) -> Value:
    """x[i, :, j]: advanced indexing by NumPy's rule. Indices next to one another leave their
    result in their place, others at the front."""
    x, e = c.first, c.e
    indices = with_masks(e, c["indices"])
    axes = _indexed_axes(indices)
    if not axes:
        return x
    if len(axes) == 1:
        return e.op("gather", x, e.cast(indices[axes[0]], I64), axis=axes[0])
    rank = x.type.rank
    rest = [i for i in range(rank) if i not in axes]
    front = e.transpose(x, [*axes, *rest])
    at = _joined(c, [indices[a] for a in axes])
    out = e.op("gather_nd", front, at)
    if axes != list(range(axes[0], axes[-1] + 1)) or axes[0] == 0:
        return out
    width = at.type.rank - 1
    before = [width + k for k in range(axes[0])]
    after = [width + k for k in range(axes[0], len(rest))]
    return e.transpose(out, [*before, *range(width), *after])


def _index_put(c: Call) -> Value:
    """x[i, :, j] = values, or += with accumulate. The indexed axes are brought to the front and
    back; values come in the shape that reading has."""
    x, e = c.first, c.e
    indices = list(c["indices"])
    values = c.as_value(c["values"], x.type.dtype)
    accumulate = bool(c.get("accumulate", False))
    given = [i for i in indices if i is not None]
    if len(given) == 1 and given[0].type.dtype == BOOL:
        return _masked_put(c, x, indices, values, accumulate)
    indices = with_masks(e, indices)
    axes = _indexed_axes(indices)
    rest = [i for i in range(x.type.rank) if i not in axes]
    order = [*axes, *rest]
    front = e.transpose(x, order)
    at = _joined(c, [indices[a] for a in axes])
    index_shape, tail = at.type.shape[:-1], front.type.shape[len(axes) :]
    width, together = len(index_shape), axes == list(range(axes[0], axes[-1] + 1))
    lead = axes[0] if together else 0  # how many other axes stand before the indexed ones
    wide = e.broadcast(values, (*tail[:lead], *index_shape, *tail[lead:]))
    perm = [*range(lead, lead + width), *range(lead), *range(lead + width, wide.type.rank)]
    wide = e.transpose(wide, perm)
    adding = "max" if x.type.dtype == BOOL else "add"
    out = e.op("scatter_nd", front, at, wide, reduction=adding if accumulate else None)
    return e.transpose(out, [order.index(i) for i in range(x.type.rank)])


def _masked_put(
    c: Call, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool
) -> Value:
    """x[:, mask] = values: a select, of rows of values in their order where there are several."""
    e = c.e
    before = next(i for i, index in enumerate(indices) if index is not None)
    mask = indices[before]
    assert mask is not None
    k = mask.type.rank
    tail = x.type.rank - before - k
    spread = e.reshape(mask, (*mask.type.shape, *(1,) * tail))
    at = values.type.rank - tail - 1  # where values count the places of the mask
    if at >= 0 and values.type.shape[at] != 1:
        flags = e.cast(e.reshape(mask, [mask.type.elements]), I64)
        count = values.type.shape[at]
        flags = e.map("add", flags, _equal_or_fault(c, flags, count))
        place = e.reshape(e.op("cumsum", flags, axis=0), mask.type.shape)
        if isinstance(count, Expr):  # one row goes to all places
            total = c.as_value(count, I64)
            place = choose(c, e.with_scalar("eq", total, 1), e.map("min", place, total), place)
        values = e.op("gather", after_zero(c, values, at), place, axis=at, from_end=False)
    elif at >= 0:
        shape = values.type.shape
        values = e.reshape(values, (*shape[:at], *(1,) * k, *shape[at + 1 :]))
    values = e.broadcast(values, x.type.shape)
    if accumulate:
        values = e.op("or" if x.type.dtype == BOOL else "add", x, values)
    return choose(c, spread, values, x)


def _equal_or_fault(c: Call, flags: Value, count: Dim) -> Value:
    """0 where ``count`` flags are set, or where it is 1 at run time; else an error of the call, by
    a lookup outside of [0]."""
    e = c.e
    total = e.op("reduce_sum", flags, axes=(0,), keepdims=False)
    apart = e.map("sub", total, c.as_value(count, I64))
    if isinstance(count, Expr):
        single = e.with_scalar("eq", c.as_value(count, I64), 1)
        apart = choose(c, single, e.scalar(0, I64), apart)
    only = e.op("iota", shape=(1,), axis=0, dtype=I64)
    return e.op("gather", only, apart, axis=0, from_end=False)


def _topk(c: Call) -> list[Value]:
    x, k = c.first, c["k"]
    if isinstance(k, Value):
        raise Refused("k depends on data")
    largest, ordered = c.get("largest", True), c.get("sorted", True)
    return c.e.results("topk", x, k=k, axis=c.axis("dim"), largest=largest, sorted=ordered)


def _sorted(c: Call) -> list[Value]:
    """A stable sort; equal elements keep their order, as topk has it."""
    x, axis = c.first, c.axis("dim") if "dim" in c.args else c.first.type.rank - 1
    if x.type.rank == 0:
        return [x, c.e.scalar(0, I64)]
    down = bool(c.get("descending", False))
    size = x.type.shape[axis]
    return c.e.results("topk", x, k=size, axis=axis, largest=down, sorted=True)


def _isin(c: Call) -> Value:
    x, test = (c.as_value(c[n], c.promoted("elements", "test_elements"))
               for n in ("elements", "test_elements"))  # fmt: skip
    flat = c.e.reshape(test, [test.type.elements])
    same = c.e.map("eq", c.e.unsqueeze(x, -1), flat)
    found = c.e.op("reduce_any", same, axes=(x.type.rank,), keepdims=False)
    return c.e.op("not", found) if c.get("invert", False) else found


RULES: dict[str, Rule] = {
    "embedding": _embedding,
    "index_select": _index_select,
    "gather": _gather, "take_along_dim": _take_along_dim, "take": _take,
    "index": _index, "_unsafe_index": _index,
    "index_put": _index_put, "_unsafe_index_put": _index_put,
    "topk": _topk, "sort": _sorted,
    "argsort": lambda c: _sorted(c)[1],
    "isin": _isin,
}  # fmt: skip
