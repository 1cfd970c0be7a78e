"""Results as large as data says: NonZero, Compress, Unique, NonMaxSuppression."""

from __future__ import annotations

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Array, Handler, Node
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64
from cuvil.sym.expr import Dim, product


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


def _unique(n: Node) -> list[Value]:
    return _unique_of(n, n.constant(0, "its input, which decides the result's size,"))


TABLE: dict[str, Handler] = {
    "NonZero": _nonzero,
    "Compress": _compress,
    "Unique": _unique,
}
