"""Results as large as data says: NonZero, Compress, Unique, NonMaxSuppression."""

from __future__ import annotations

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.distinct import distinct
from cuvil.frontends.onnx.node import Array, Handler, Node
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F32, I64
from cuvil.sym.expr import Dim, minimum, product


def nonzero(n: Node, x: Value) -> Value:
    """[rank, late] the indices of what is not zero, one column each in row-major order."""
    e, rank, shape = n.e, x.type.rank, x.type.shape
    mask = x if x.type.dtype == BOOL else e.with_scalar("ne", x, 0)
    at = e.positions(mask, "nonzero", "the number of elements that are not zero")
    if rank == 0:
        return e.op("iota", shape=(0, at.type.shape[0]), axis=0, dtype=I64)
    rows = [e.unsqueeze(unravelled(n, at, shape, axis), 0) for axis in range(rank)]
    return rows[0] if rank == 1 else e.op("concat", *rows, axis=0)


def unravelled(n: Node, at: Value, shape: tuple[Dim, ...], axis: int) -> Value:
    """The index along one axis of flat positions in a shape."""
    e = n.e
    inner, size = product(shape[axis + 1 :]), shape[axis]
    if inner != 1:
        at = e.map("floordiv", at, e.dims([inner], scalar=True))
    return at if axis == 0 else e.map("mod", at, e.dims([size], scalar=True))


def _nonzero(n: Node) -> Value:
    known = n.knowledge.array(n[0])
    if known is None:
        return nonzero(n, n[0])
    return n.e.weight(np.array(np.nonzero(np.atleast_1d(known)), dtype=np.int64), n.outputs[0])


def _compress(n: Node) -> Value:
    """The slices along an axis that a condition picks; it may be shorter than the axis
    (Compress-11)."""
    x, condition, e = n[0], n[1], n.e
    if condition.type.rank != 1:
        raise InvalidModelError(f"Compress needs a vector of conditions, got {condition.type}")
    axis = n.axis("axis", None, x.type.rank) if "axis" in n.attrs else None
    if axis is None:
        x, axis = e.reshape(x, [x.type.elements]), 0
    e.context.require(
        condition.type.shape[0], "<=", x.type.shape[axis], "Compress: conditions and elements"
    )
    known = n.knowledge.array(condition)
    if known is not None:
        at = e.weight(np.flatnonzero(known).astype(np.int64))
    else:
        at = e.positions(condition, "picked", "the number of true conditions")
    return e.op("gather", x, at, axis=axis, from_end=False)


def _unique_of(n: Node, x: Array) -> list[Value]:
    axis = n.attrs.get("axis")
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.arange(len(first)) if n.integer("sorted", 1) else np.argsort(first)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    picked = np.take(values, order, axis=axis if axis is not None else 0)
    rest = (first[order], places[inverse.reshape(-1)], counts[order])
    return [n.e.weight(picked), *(n.e.weight(a.astype(np.int64)) for a in rest)]


def _unique(n: Node) -> list[Value | None]:
    """Values or slices along an axis, where each is first, which each element is, and how often
    (Unique-11). NaNs are one value."""
    x, e = n[0], n.e
    known = n.knowledge.array(x)
    if known is not None:
        return list(_unique_of(n, known))
    rows, axis, rest = x, 0, x.type.shape[1:]
    if "axis" not in n.attrs:
        x = e.reshape(x, (x.type.elements,))
        found = distinct(e, x, equal_nan=True)
    else:
        axis = n.axis("axis", None, x.type.rank)
        order = [axis, *(i for i in range(x.type.rank) if i != axis)]
        rows = e.transpose(x, order)
        rest = rows.type.shape[1:]
        found = distinct(e, e.reshape(rows, (rows.type.shape[0], product(rest))), equal_nan=True)
    if not n.integer("sorted", 1):
        found = found.by_appearance()
    values = e.op("gather", x, found.first, axis=axis, from_end=False)
    return [values, found.first, found.inverse, found.counts if n.wants(3) else None]


def _non_max_suppression(n: Node) -> Value:
    """[late, 3]: batch, class and box of those that stay, the best of a class first
    (NonMaxSuppression-11)."""
    e, boxes, scores = n.e, n[0], n[1]
    count = scores.type.shape[2]
    most = e.cast(e.reshape(n[2], ()), I64) if n.has(2) else e.scalar(0, I64)
    known = n.knowledge.dims(n[2]) if n.has(2) else [0]
    limit: Dim = count
    if known is not None and isinstance(known[0], int):
        limit = e.simplify(minimum(count, max(known[0], 0)))
    numbers = [e.reshape(n[i], ()) if n.has(i) else e.scalar(0.0, F32) for i in (3, 4)]
    picked, found = e.results(
        "nms", boxes, scores, most, *numbers, limit=limit,
        center=bool(n.integer("center_point_box", 0)) or None, has_low=n.has(4) or None,
    )  # fmt: skip
    shape = picked.type.shape
    place = e.op("iota", shape=shape, axis=2, dtype=I64)
    kept = e.map("lt", place, e.unsqueeze(found, 2))
    at = e.positions(kept, "selected", "the number of boxes that stay")
    box = e.op("gather", e.reshape(picked, (product(shape),)), at, axis=0, from_end=False)
    columns = [*(unravelled(n, at, shape, axis) for axis in (0, 1)), box]
    return e.op("concat", *(e.unsqueeze(c, 1) for c in columns), axis=1)


TABLE: dict[str, Handler] = {
    "NonZero": _nonzero,
    "Compress": _compress,
    "Unique": _unique,
    "NonMaxSuppression": _non_max_suppression,
}
