"""Writing at computed places, and selections by index."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64
from cuvil.sym.expr import Dim, mul, product

_REDUCTIONS = ("none", "add", "mul", "max", "min")


def _reduction(n: Node) -> str | None:
    """The attribute; the sum of bools is their maximum, the product their minimum."""
    name = n.text("reduction", "none")
    if name not in _REDUCTIONS:
        raise InvalidModelError(f"{n.op}: reduction {name!r} is not one of {_REDUCTIONS}")
    if n.dtype() == BOOL:
        name = {"add": "max", "mul": "min"}.get(name, name)
    return None if name == "none" else name


def _scatter_elements(n: Node) -> Value:
    axis = n.axis("axis", 0, n[0].type.rank)
    return n.e.op("scatter_elements", n[0], n[1], n[2], axis=axis, reduction=_reduction(n))


def _scatter_nd(n: Node) -> Value:
    """How many dimensions an index names follows from the ranks, where that size is symbolic."""
    data, index, updates = n[0], n[1], n[2]
    depth = data.type.rank + index.type.rank - 1 - updates.type.rank
    if index.type.rank and 0 <= depth <= data.type.rank:
        index = n.sized(index, index.type.rank - 1, depth, "the last dimension of the indices")
    return n.e.op("scatter_nd", data, index, updates, reduction=_reduction(n))


def _one_hot(n: Node) -> Value:
    """on where the index is i, counted from the end if negative; off elsewhere (OneHot-11)."""
    e = n.e
    depth = n.sizes(1, "the depth")[0]
    index = e.cast(n[0], I64)
    rank = index.type.rank + 1
    axis = n.axis("axis", -1, rank)
    shape = [*index.type.shape]
    shape.insert(axis, depth)
    size = e.dims([depth], scalar=True)
    wrapped = e.map("select", e.with_scalar("lt", index, 0), e.map("add", index, size), index)
    place = e.op("iota", shape=tuple(shape), axis=axis, dtype=I64)
    hit = e.map("eq", place, e.unsqueeze(wrapped, axis))
    off, on = (e.squeeze(e.slice(n[2], 0, i, i + 1), [0]) for i in (0, 1))
    return e.map("select", hit, on, off)


def _max_unpool(n: Node) -> Value:
    """Values written at flat places of a tensor of zeros (MaxUnpool-11)."""
    x, e = n[0], n.e
    lead, spatial = x.type.shape[:2], x.type.shape[2:]
    kernel = n.integers("kernel_shape")
    strides = n.integers("strides", [1] * len(kernel))
    pads = n.integers("pads", [0] * 2 * len(kernel))
    sizes: list[Dim] = []
    for i, d in enumerate(spatial):
        rest = kernel[i] - strides[i] - pads[i] - pads[i + len(kernel)]
        sizes.append(mul(d, strides[i]) + rest)
    natural = (*lead, *sizes)
    shape = tuple(n.sizes(2, "the output shape")) if n.has(2) else natural
    zeros = e.broadcast(e.scalar(0, x.type.dtype), (product(shape),))
    flat = (x.type.elements,)
    index = e.cast(e.reshape(n[1], flat), I64)
    if shape != natural:
        index = _replaced(n, index, natural, shape)
    out = e.op("scatter_elements", zeros, index, e.reshape(x, flat), axis=0)
    return e.reshape(out, shape)


def _replaced(n: Node, index: Value, old: tuple[Dim, ...], new: tuple[Dim, ...]) -> Value:
    """Flat places in one shape as flat places in another that holds it at the origin."""
    e = n.e
    total = e.scalar(0, I64)
    rest = index
    stride: Dim = 1
    for d_old, d_new in zip(reversed(old), reversed(new), strict=True):
        size = e.dims([d_old], scalar=True)
        place = e.map("mul", e.map("mod", rest, size), e.dims([stride], scalar=True))
        total = e.map("add", total, place)
        rest = e.map("div", rest, size)
        stride = mul(stride, d_new)
    return total


def _tensor_scatter(n: Node) -> Value:
    """Rows of a cache overwritten from per-batch positions on (TensorScatter-24)."""
    cache, update, e = n[0], n[1], n.e
    rank = cache.type.rank
    axis = n.axis("axis", -2, rank)
    size, length = cache.type.shape[axis], update.type.shape[axis]
    at = e.op("iota", shape=(length,), axis=0, dtype=I64)
    if n.has(2):
        start = e.cast(n[2], I64)
        at = e.map("add", e.unsqueeze(start, 1), at)
        at = e.reshape(at, (at.type.shape[0], *[1] * (axis - 1), length, *[1] * (rank - axis - 1)))
    else:
        at = e.reshape(at, (length, *[1] * (rank - axis - 1)))
    if n.text("mode", "linear") == "circular":
        at = e.map("mod", at, e.dims([size], scalar=True))
    index = e.broadcast(at, update.type.shape)
    return e.op("scatter_elements", cache, index, update, axis=axis)


TABLE: dict[str, Handler] = {
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
    "MaxUnpool": _max_unpool,
    "TensorScatter": _tensor_scatter,
}
