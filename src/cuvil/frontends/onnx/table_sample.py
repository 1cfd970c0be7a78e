"""GridSample: reading an image at computed places (GridSample-20); AffineGrid makes them."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.formula import Term
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.sampling import PADDINGS, Axis, sampled, size_term
from cuvil.ir.core import Value
from cuvil.ir.types import F32
from cuvil.sym.expr import Dim, product

_MODES = {
    "linear": "linear", "bilinear": "linear", "nearest": "nearest", "cubic": "cubic",
    "bicubic": "cubic",
}  # fmt: skip
_FAR = 4.0  # elements: more than any mode reaches


def _place(column: Term, size: Dim, padding: str, corners: bool) -> Term:
    """From [-1, 1] to elements. Where outside is 0 all places far outside are one: those of
    infinity have weights then."""
    whole = size_term(column.e, size, column.dtype)
    shifted = column + 1.0
    place = shifted * (whole - 1.0) * 0.5 if corners else (shifted * whole - 1.0) * 0.5
    return place.map("min", whole + _FAR).map("max", -_FAR) if padding == "zeros" else place


def _choice(n: Node, name: str, default: str, known: dict[str, str]) -> str:
    given = n.text(name, default)
    if given not in known:
        raise InvalidModelError(f"GridSample: {name} {given!r} is unknown")
    return known[given]


def _grid_sample(n: Node) -> Value:
    e, x, grid = n.e, n[0], n[1]
    spatial = x.type.shape[2:]
    count = len(spatial)
    if grid.type.rank != count + 2:
        raise InvalidModelError(f"GridSample: grid {grid.type} does not fit {x.type}")
    mode = _choice(n, "mode", "linear", _MODES)
    padding = _choice(n, "padding_mode", "zeros", {p: p for p in PADDINGS})
    corners = bool(n.integer("align_corners", 0))
    batch, channels = x.type.shape[:2]
    shape = grid.type.shape[1:-1]
    kind = x.type.dtype
    if mode != "nearest":  # in the wider of two floats; of integers, in the grid's
        wider = kind.is_float and kind.size > grid.type.dtype.size
        x, grid = (e.cast(v, kind if wider else n[1].type.dtype) for v in (x, grid))
    flat = e.reshape(grid, (batch, product(shape), count))
    axes = []
    for i, size in enumerate(spatial):
        at = count - 1 - i
        column = Term(e, e.squeeze(e.slice(flat, 2, at, at + 1), [2]))
        axes.append(Axis(_place(column, size, padding, corners), size, padding, corners))
    found = sampled(Term(e, x), axes, mode)
    return e.cast(e.reshape(found.value, (batch, channels, *shape)), kind)


def _affine_grid(n: Node) -> Value:
    """theta @ (x, y, z, 1) for each element's place in [-1, 1], [N, *spatial, dims]: of elements'
    middles, or with align_corners from the first to the last (AffineGrid-20). One element alone is
    at -1 then."""
    e, kind = n.e, n[0].type.dtype
    sizes = n.sizes(1, "the size")
    count = len(sizes) - 2
    theta = e.cast(n[0], F32) if kind.size < F32.size else n[0]
    if count not in (2, 3) or theta.type.shape[1:] != (count, count + 1):
        raise InvalidModelError(f"AffineGrid: theta {n[0].type} does not fit {len(sizes)} sizes")
    batch = e.context.same(theta.type.shape[0], sizes[0], "AffineGrid: batch")
    spatial = tuple(sizes[2:])
    columns = []
    for axis in reversed(range(count)):
        step = Term(e, e.op("iota", shape=spatial, axis=axis, dtype=theta.type.dtype)) * 2.0
        whole = size_term(e, spatial[axis], theta.type.dtype)
        if n.integer("align_corners", 0):
            place = step / (whole - 1.0).map("max", 1.0) - 1.0
        else:
            place = (step + 1.0) / whole - 1.0
        columns.append(e.unsqueeze(place.value, -1))
    ones = e.broadcast(e.scalar(1, theta.type.dtype), columns[0].type.shape)
    places = e.reshape(e.op("concat", *columns, ones, axis=count), (product(spatial), count + 1))
    places = e.broadcast(places, (batch, *places.type.shape))
    theta = e.broadcast(theta, (batch, count, count + 1))
    grid = e.reshape(e.op("matmul", places, theta, trans_b=True), (batch, *spatial, count))
    return e.cast(grid, kind)


TABLE: dict[str, Handler] = {"AffineGrid": _affine_grid, "GridSample": _grid_sample}
