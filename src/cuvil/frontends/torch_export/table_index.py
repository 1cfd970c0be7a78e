"""Reading and writing by index tensors, ordering."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import choose
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64
from cuvil.sym.expr import Dim


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


def _from_zero(c: Call, index: Value, size: Dim) -> Value:
    """Negative indices counted from the back, so that several can be combined."""
    shifted = c.e.map("add", index, c.as_value(size, I64))
    return choose(c, c.e.with_scalar("lt", index, 0), shifted, index)


def _indexed_axes(c: Call, x: Value, indices: Sequence[Value | None]) -> list[int]:
    axes = [i for i, index in enumerate(indices) if index is not None]
    for i in axes:
        index = indices[i]
        if index is not None and index.type.dtype.name in ("bool", "u8"):
            raise Refused("a mask as an index gives a size that depends on data")
    return axes


def _joined(c: Call, x: Value, indices: Sequence[Value]) -> Value:
    """Broadcast index tensors as the last axis of one: [..., number of indices]."""
    shape = c.e.context.broadcast([i.type.shape for i in indices], "index")
    wide = [c.e.broadcast(c.e.cast(i, I64), shape) for i in indices]
    wide = [_from_zero(c, i, x.type.shape[k]) for k, i in enumerate(wide)]
    parts = [c.e.unsqueeze(i, -1) for i in wide]
    return parts[0] if len(parts) == 1 else c.e.op("concat", *parts, axis=len(shape))


def _index(c: Call) -> Value:
    """x[i, :, j]: advanced indexing by NumPy's rule. Indices next to one another leave their
    result in their place, others at the front."""
    x, e = c.first, c.e
    indices = list(c["indices"])
    axes = _indexed_axes(c, x, indices)
    if not axes:
        return x
    if len(axes) == 1:
        return e.op("gather", x, e.cast(indices[axes[0]], I64), axis=axes[0])
    rank = x.type.rank
    rest = [i for i in range(rank) if i not in axes]
    front = e.transpose(x, [*axes, *rest])
    at = _joined(c, front, [indices[a] for a in axes])
    out = e.op("gather_nd", front, at)
    if axes != list(range(axes[0], axes[-1] + 1)) or axes[0] == 0:
        return out
    width = at.type.rank - 1
    before = [width + k for k in range(axes[0])]
    after = [width + k for k in range(axes[0], len(rest))]
    return e.transpose(out, [*before, *range(width), *after])


def _index_put(c: Call) -> Value:
    """x[i, j] = values, or += with accumulate."""
    x, e = c.first, c.e
    indices = list(c["indices"])
    values = c.as_value(c["values"], x.type.dtype)
    if len(indices) == 1 and indices[0] is not None and indices[0].type.dtype == BOOL:
        return _masked_put(c, x, indices[0], values)
    axes = _indexed_axes(c, x, indices)
    if axes != list(range(len(axes))):
        raise Refused("writing by an index that skips leading axes")
    at = _joined(c, x, [indices[a] for a in axes])
    shape = (*at.type.shape[:-1], *x.type.shape[len(axes) :])
    wide = e.broadcast(values, shape)
    reduction = "add" if c.get("accumulate", False) else None
    return e.op("scatter_nd", x, at, wide, reduction=reduction)


def _masked_put(c: Call, x: Value, mask: Value, values: Value) -> Value:
    """x[mask] = number is a select; with more values their number depends on data."""
    if values.type.elements != 1 or c.get("accumulate", False):
        raise Refused("writing many values by a mask depends on data; use torch.where")
    rest = x.type.rank - mask.type.rank
    mask = c.e.reshape(mask, (*mask.type.shape, *(1,) * rest))
    return choose(c, mask, c.e.reshape(values, ()), x)


_REDUCE = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max",
           "amin": "min"}  # fmt: skip


def _scatter(c: Call) -> Value:
    """scatter, scatter_add and scatter_reduce (not mean)."""
    x, index, axis = c.first, c.tensor("index"), c.axis("dim")
    source = c.args["src"] if "src" in c.args else c.args["value"]
    updates = c.as_value(source, x.type.dtype)
    mode = "sum" if c.name == "scatter_add" else c.get("reduce")
    if mode is not None and (mode not in _REDUCE or not c.get("include_self", True)):
        raise Refused(f"scatter with reduce={mode!r} that leaves out the old values")
    if updates.type.rank == 0 and index.type.rank != 0:
        updates = c.e.broadcast(updates, index.type.shape)
    for i, (have, want) in enumerate(zip(updates.type.shape, index.type.shape, strict=True)):
        if have != want:
            updates = c.e.slice(updates, i, 0, want)
    if x.type.rank == 0:
        raise Refused("scatter into a scalar")
    reduction = None if mode is None else _REDUCE[mode]
    return c.e.op("scatter_elements", x, index, updates, axis=axis, reduction=reduction)


def _rows(c: Call, reduction: str | None) -> Value:
    """index_copy, index_add and index_fill: whole rows along an axis."""
    x, index, axis = c.first, c.tensor("index"), c.axis("dim")
    source = c.args["source"] if "source" in c.args else c.args["value"]
    updates = c.as_value(source, x.type.dtype)
    alpha = c.get("alpha", 1)
    if alpha != 1:
        updates = c.e.map("mul", updates, c.as_value(alpha, x.type.dtype))
    size = index.type.elements
    shape = tuple(size if i == axis else d for i, d in enumerate(x.type.shape))
    lines = [size if i == axis else 1 for i in range(x.type.rank)]
    at = c.e.broadcast(c.e.reshape(c.e.cast(index, I64), lines), shape)
    updates = c.e.broadcast(updates, shape)
    return c.e.op("scatter_elements", x, at, updates, axis=axis, reduction=reduction)


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


def _kth(c: Call) -> list[Value]:
    """The k-th smallest (k from 1) and its index."""
    x, k, axis = c.first, c.number("k"), c.axis("dim")
    values, index = c.e.results("topk", x, k=k, axis=axis, largest=False, sorted=True)
    out = [c.e.slice(v, axis, k - 1, k) for v in (values, index)]
    return out if c.get("keepdim", False) else [c.e.squeeze(v, [axis]) for v in out]


def _bucketize(c: Call) -> Value:
    """The number of boundaries below each value (sorted boundaries of one dimension)."""
    name = "boundaries" if "boundaries" in c.args else "sorted_sequence"
    edges = c.tensor(name)
    x = c.args["self"]
    if edges.type.rank != 1 or c.args.get("sorter") is not None:
        raise Refused("searchsorted in more than one sequence")
    right = c.get("right", False) or c.get("side") == "right"
    value = c.e.unsqueeze(c.as_value(x, edges.type.dtype), -1)
    below = c.e.map("le" if right else "lt", edges, value)
    count = c.e.op("reduce_sum", c.e.cast(below, I64), axes=(-1 % below.type.rank,), keepdims=False)
    return c.e.cast(count, c.dtype)


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
    "scatter": _scatter, "scatter_add": _scatter, "scatter_reduce": _scatter,
    "index_copy": lambda c: _rows(c, None), "index_fill": lambda c: _rows(c, None),
    "index_add": lambda c: _rows(c, "add"),
    "topk": _topk, "sort": _sorted,
    "argsort": lambda c: _sorted(c)[1],
    "kthvalue": _kth,
    "bucketize": _bucketize, "searchsorted": _bucketize,
    "isin": _isin,
}  # fmt: skip
