"""Results as large as data says: nonzero, masks, unique values, repeats by tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuvil.frontends.distinct import Distinct, distinct, grouped
from cuvil.frontends.emitter import Emitter
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64, Shape
from cuvil.sym.expr import Dim, Expr, add, product


def mask_of(e: Emitter, x: Value) -> Value:
    """True where an element is not zero."""
    return x if x.type.dtype == BOOL else e.with_scalar("ne", x, 0)


def places(e: Emitter, mask: Value) -> list[Value]:
    """For each axis of a mask, the indices of its true elements in row-major order."""
    at = e.positions(mask, "nonzero", "the number of elements that are not zero")
    return [_along(e, at, mask.type.shape, axis) for axis in range(mask.type.rank)]


def _along(e: Emitter, at: Value, shape: Shape, axis: int) -> Value:
    inner = product(shape[axis + 1 :])
    if inner != 1:
        at = e.map("floordiv", at, e.dims([inner], scalar=True))
    return at if axis == 0 else e.map("mod", at, e.dims([shape[axis]], scalar=True))


def with_masks(e: Emitter, indices: Sequence[Value | None]) -> list[Value | None]:
    """Indices where each mask has become one index for each of its axes."""
    out: list[Value | None] = []
    for index in indices:
        if index is not None and index.type.dtype.name in ("bool", "u8"):
            out += places(e, mask_of(e, index))
        else:
            out.append(index)
    return out


def _nonzero(c: Call) -> Value:
    e, mask = c.e, mask_of(c.e, c.first)
    columns = [e.unsqueeze(v, 1) for v in places(e, mask)]
    if not columns:
        size = e.count(mask, "nonzero", "the number of elements that are not zero")
        return e.broadcast(e.scalar(0, I64), (size, 0))
    return columns[0] if len(columns) == 1 else e.op("concat", *columns, axis=1)


def _masked_select(c: Call) -> Value:
    e, x, mask = c.e, c.first, mask_of(c.e, c.tensor("mask"))
    shape = e.context.broadcast([x.type.shape, mask.type.shape], "masked_select")
    at = e.positions(e.broadcast(mask, shape), "selected", "the number of true elements")
    if x.type.shape != shape:
        c.symbols.bounded.add(str(at.type.shape[0]))
    flat = e.reshape(e.broadcast(x, shape), [product(shape)])
    return e.op("gather", flat, at, axis=0, from_end=False)


def _results(c: Call, values: Value, found: Distinct, shape: Shape) -> list[Value | None]:
    """Values, inverse and counts; what is not asked for is empty in torch, for some operators."""
    e = c.e
    inverse, counts = (_is_given(meta.shape) for meta in c.metas[1:3])
    none = e.broadcast(e.scalar(0, I64), (0,))
    return [
        values,
        e.reshape(found.inverse, shape) if inverse else none,
        found.counts if counts else none,
    ]


def _is_given(shape: Sequence[Any]) -> bool:
    """Whether a size is another than 0; one that torch doesn't know may not be compared."""
    return len(shape) != 1 or not isinstance(shape[0], int) or shape[0] != 0


def _unique(c: Call) -> list[Value | None]:
    """All values in ascending order; each NaN is one of its own."""
    e, x = c.e, c.first
    flat = e.reshape(x, [x.type.elements])
    found = distinct(e, flat, equal_nan=False)
    values = e.op("gather", flat, found.first, axis=0, from_end=False)
    return _results(c, values, found, x.type.shape)


def _rows(c: Call, axis: int) -> tuple[Value, Value]:
    """The input with an axis in front, and that as a matrix."""
    e, x = c.e, c.first
    turned = e.transpose(x, [axis, *(i for i in range(x.type.rank) if i != axis)])
    shape = turned.type.shape
    return turned, e.reshape(turned, (shape[0], product(shape[1:])))


def _unique_dim(c: Call) -> list[Value | None]:
    axis = c.axis("dim")
    found = distinct(c.e, _rows(c, axis)[1], equal_nan=False)
    values = c.e.op("gather", c.first, found.first, axis=axis, from_end=False)
    return _results(c, values, found, (c.first.type.shape[axis],))


def _unique_consecutive(c: Call) -> list[Value | None]:
    e, x = c.e, c.first
    shape: Shape = x.type.shape
    if c.metas[0].dim() != (1 if c.args.get("dim") is None else x.type.rank):
        raise Refused("torch.export gives it a wrong rank; count the dim from the front")
    if c.args.get("dim") is None:
        axis, rows = 0, e.reshape(x, [x.type.elements])
        x = rows
    else:
        axis = c.axis("dim")
        rows, shape = _rows(c, axis)[1], (shape[axis],)
    line = e.op("iota", shape=(rows.type.shape[0],), axis=0, dtype=I64)
    found = grouped(e, rows, line, equal_nan=False)
    values = e.op("gather", x, found.first, axis=axis, from_end=False)
    return _results(c, values, found, shape)


def repeated_places(c: Call, repeats: Value, size: Dim | None) -> Value:
    """Each place as often as its entry in a vector says: [late] i64. ``size`` is the whole number
    if the caller knows it."""
    e = c.e
    repeats = e.cast(repeats, I64)
    total = e.op("reduce_sum", repeats, axes=(0,), keepdims=True)
    below = e.op("reduce_any", e.with_scalar("lt", repeats, 0), axes=(0,), keepdims=True)
    total = e.map("select", below, e.scalar(-1, I64), total)
    found = e.bind(total, ["repeated"], "the sum of the repeats")[0]
    if size is not None:
        e.context.require(found, "==", size, "repeat_interleave: output_size")
        found = size
    # After the last element of each place the number goes up by one; the last mark is dropped.
    marks = e.broadcast(e.scalar(0, I64), (add(found, 1),))
    ends = e.op("cumsum", repeats, axis=0)
    ones = e.broadcast(e.scalar(1, I64), repeats.type.shape)
    marks = e.op("scatter_elements", marks, ends, ones, axis=0, reduction="add")
    return e.op("cumsum", e.slice(marks, 0, 0, found), axis=0)


def _bincount(c: Call) -> Value:
    """How often each number from 0 on stands there, or the sum of its weights; at least
    ``minlength`` of them, which may be a size."""
    e, x = c.e, c.e.cast(c.first, I64)
    least = c.get("minlength", 0)
    if isinstance(least, Expr):
        e.context.require(least, ">=", 0, "bincount: minlength")
    last = e.with_scalar("add", c.as_value(least, I64), -1)
    line = e.op("concat", x, e.reshape(last, (1,)), axis=0)
    most = e.op("reduce_max", line, axes=(0,), keepdims=True)
    below = e.op("reduce_any", e.with_scalar("lt", x, 0), axes=(0,), keepdims=True)
    size = e.with_scalar("add", most, 1)
    size = e.map("select", below, e.scalar(-1, I64), size)
    count = e.bind(size, ["bins"], "one more than the largest number")[0]
    weights = c.tensor_or_none("weights")
    ones = e.broadcast(e.scalar(1, c.dtype), x.type.shape)
    updates = ones if weights is None else e.cast(weights, c.dtype)
    zeros = e.broadcast(e.scalar(0, c.dtype), (count,))
    return e.op("scatter_elements", zeros, x, updates, axis=0, reduction="add")


def after_zero(c: Call, values: Value, axis: int) -> Value:
    """The values counted from 1. What stands at 0 is for places before the first that is chosen:
    they look something up as well, which nobody reads, even if there are no values."""
    shape = tuple(1 if i == axis else d for i, d in enumerate(values.type.shape))
    zero = c.e.broadcast(c.e.scalar(0, values.type.dtype), shape)
    return c.e.op("concat", zero, values, axis=axis)


RULES: dict[str, Rule] = {
    "nonzero": _nonzero,
    "masked_select": _masked_select,
    "_unique2": _unique,
    "unique_dim": _unique_dim,
    "unique_consecutive": _unique_consecutive,
    "bincount": _bincount,
}
