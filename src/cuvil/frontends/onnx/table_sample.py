"""GridSample: reading an image at computed places (GridSample-20)."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.formula import Term
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.sampling import PADDINGS, Axis, sampled, size_term
from cuvil.ir.core import Value
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


TABLE: dict[str, Handler] = {"GridSample": _grid_sample}
