"""GridSample: reading an image at computed places (GridSample-20)."""

from __future__ import annotations

import itertools

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, product

_MODES = {"linear": "linear", "bilinear": "linear", "nearest": "nearest"}
_CUBIC = ("cubic", "bicubic")
_A = -0.75  # Keys' parameter, as GridSample fixes it


class _Grid:
    """One axis' coordinates, in elements, and how places outside are brought inside."""

    def __init__(self, n: Node, coordinate: Value, size: Dim) -> None:
        self.e = n.e
        self.kind = coordinate.type.dtype
        self.size = n.e.cast(n.e.dims([size], scalar=True), self.kind)
        self.last = n.e.with_scalar("sub", self.size, 1)
        self.align = bool(n.integer("align_corners", 0))
        self.padding = n.text("padding_mode", "zeros")
        if self.padding not in ("zeros", "border", "reflection"):
            raise InvalidModelError(f"GridSample: padding_mode {self.padding!r} is unknown")
        shifted = self.e.with_scalar("add", coordinate, 1)
        if self.align:
            place = self.e.with_scalar("mul", self.e.map("mul", shifted, self.last), 0.5)
        else:
            scaled = self.e.with_scalar("sub", self.e.map("mul", shifted, self.size), 1)
            place = self.e.with_scalar("mul", scaled, 0.5)
        self.place = place

    def inside(self, place: Value) -> Value:
        """Clamped or reflected; as it is for zeros."""
        if self.padding == "zeros":
            return place
        return self.clamped(self._reflected(place) if self.padding == "reflection" else place)

    def clamped(self, place: Value) -> Value:
        return self.e.map("min", self.e.with_scalar("max", place, 0), self.last)

    def _reflected(self, place: Value) -> Value:
        """Back and forth between -0.5 and size - 0.5, or 0 and size - 1 with aligned corners."""
        e = self.e
        low = 0.0 if self.align else -0.5
        span = e.with_scalar("max", self.last if self.align else self.size, 1e-30)
        away = e.op("abs", e.with_scalar("sub", place, low))
        turns = e.op("floor", e.map("div", away, span))
        rest = e.map("sub", away, e.map("mul", turns, span))
        odd = e.with_scalar("ne", e.with_scalar("fmod", turns, 2), 0)
        back = e.map("sub", span, rest)
        return e.with_scalar("add", e.op("select", odd, back, rest), low)

    def taps(self, mode: str) -> list[tuple[Value, Value | None]]:
        """(place of an element, its weight or None for 1) for each element that is read."""
        e = self.e
        if mode == "nearest":
            return [(e.op("round", self.inside(self.place)), None)]
        if mode == "linear":
            place = self.inside(self.place)
            low = e.op("floor", place)
            part = e.op("sub", place, low)
            return [
                (low, e.map("sub", e.scalar(1, self.kind), part)),
                (e.with_scalar("add", low, 1), part),
            ]
        low = e.op("floor", self.place)
        part = e.op("sub", self.place, low)
        return [
            (self.inside(e.with_scalar("add", low, k)), self._cubic(part, k)) for k in range(-1, 3)
        ]

    def _cubic(self, part: Value, k: int) -> Value:
        """Keys' kernel at distance |part - k|."""
        e = self.e
        d = e.op("abs", e.with_scalar("sub", part, k))
        near = k in (0, 1)
        first, second = (_A + 2, -(_A + 3)) if near else (_A, -5 * _A)
        out = e.with_scalar("add", e.with_scalar("mul", d, first), second)
        out = e.op("mul", out, d)
        if near:
            return e.with_scalar("add", e.op("mul", out, d), 1)
        out = e.op("mul", e.with_scalar("add", out, 8 * _A), d)
        return e.with_scalar("add", out, -4 * _A)


def _grid_sample(n: Node) -> Value:
    e, x, grid = n.e, n[0], n[1]
    spatial = x.type.shape[2:]
    count = len(spatial)
    if grid.type.rank != count + 2:
        raise InvalidModelError(f"GridSample: grid {grid.type} does not fit {x.type}")
    mode = n.text("mode", "linear")
    if mode not in _MODES and mode not in _CUBIC:
        raise InvalidModelError(f"GridSample: mode {mode!r} is unknown")
    mode = _MODES.get(mode, "cubic")
    batch, channels = x.type.shape[:2]
    shape = grid.type.shape[1:-1]
    flat = e.reshape(grid, (batch, product(shape), count))
    axes = []
    for i, size in enumerate(spatial):
        at = count - 1 - i
        coordinate = e.squeeze(e.slice(flat, 2, at, at + 1), [2])
        axes.append(_Grid(n, coordinate, size))
    image = e.reshape(x, (batch, channels, product(spatial)))
    total: Value | None = None
    for taps in itertools.product(*(axis.taps(mode) for axis in axes)):
        part = _read(n, image, axes, [place for place, _ in taps], spatial)
        for _, weight in taps:
            if weight is not None:
                part = e.map("mul", part, e.cast(e.unsqueeze(weight, 1), x.type.dtype))
        total = part if total is None else e.op("add", total, part)
    assert total is not None
    return e.reshape(total, (batch, channels, *shape))


def _read(
    n: Node, image: Value, axes: list[_Grid], places: list[Value], spatial: tuple[Dim, ...]
) -> Value:
    """The elements [N, C, O] at whole places; 0 outside the image."""
    e = n.e
    index: Value | None = None
    valid: Value | None = None
    for axis, place, size in zip(axes, places, spatial, strict=True):
        held = axis.clamped(place)
        whole = e.cast(held, I64)
        length = e.dims([size], scalar=True)
        index = whole if index is None else e.op("add", e.map("mul", index, length), whole)
        same = e.op("eq", held, place)
        valid = same if valid is None else e.op("and", valid, same)
    assert index is not None and valid is not None
    shape = (*image.type.shape[:2], index.type.shape[1])
    picks = e.op("gather_elements", image, e.broadcast(e.unsqueeze(index, 1), shape), axis=2)
    return e.map("select", e.unsqueeze(valid, 1), picks, e.scalar(0, image.type.dtype))


TABLE: dict[str, Handler] = {"GridSample": _grid_sample}
