"""Images read at computed places: GridSample of ONNX and grid_sample of torch.

Places are counted in elements along each axis. Those outside give 0 (``zeros``), the nearest edge
(``border``), or are mirrored there until they are inside (``reflection``). Without a place (NaN)
the latter two give the first element, as PyTorch's documentation has it; ``zeros`` gives NaN, and
0 by the nearest element.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from cuvil.frontends.emitter import Emitter
from cuvil.frontends.formula import Term
from cuvil.ir.core import Value
from cuvil.ir.types import I64, DType
from cuvil.sym.expr import Dim, product

PADDINGS = ("zeros", "border", "reflection")
_A = -0.75  # Keys' parameter, as both fix it


def size_term(e: Emitter, size: Dim, dtype: DType) -> Term:
    """A size as a number of this dtype."""
    return Term(e, e.cast(e.dims([size], scalar=True), dtype))


@dataclass(frozen=True)
class Axis:
    """One axis of the image, and the place of each output along it, [N, outputs].

    ``corners`` says that -1 and 1 are the middles of the outer elements, and not their ends.
    ``lost`` says where an output without a place reads: the first element, or the last.
    """

    place: Term
    size: Dim
    padding: str
    corners: bool
    lost: str = "first"

    @property
    def _last(self) -> Term:
        return size_term(self.place.e, self.size, self.place.dtype) - 1.0

    def held(self, place: Term) -> Term:
        """Inside the image."""
        if self.lost == "last":
            return (place < self._last).where(place, self._last).map("max", 0.0)
        return (place > 0.0).where(place, 0.0).map("min", self._last)

    def _inside(self, place: Term) -> Term:
        if self.padding == "zeros":
            return place
        return self.held(self._mirrored(place) if self.padding == "reflection" else place)

    def _mirrored(self, place: Term) -> Term:
        """Back and forth between -0.5 and size - 0.5, or 0 and size - 1."""
        low, twice = (0.0, self._last * 2.0) if self.corners else (-0.5, (self._last + 1.0) * 2.0)
        away = abs(place - low)
        rest = away - (away / twice).map("trunc") * twice
        return rest.map("min", twice - rest) + low

    def taps(self, mode: str) -> list[tuple[Term, Term | None]]:
        """(place of an element, its weight or None for 1) for each element that is read."""
        if mode == "nearest":
            return [(self._inside(self.place).map("round"), None)]
        if mode == "linear":
            place = self._inside(self.place)
            low = place.map("floor")
            part = place - low
            return [(low, 1.0 - part), (low + 1.0, part)]
        low = self.place.map("floor")
        part = self.place - low
        return [(self._inside(low + float(k)), _cubic(part, k)) for k in range(-1, 3)]


def _cubic(part: Term, k: int) -> Term:
    """Keys' kernel at distance |part - k|."""
    d = abs(part - float(k))
    if k in (0, 1):
        return d.polynomial([_A + 2, -(_A + 3), 0.0, 1.0])
    return d.polynomial([_A, -5 * _A, 8 * _A, -4 * _A])


def sampled(x: Term, axes: Sequence[Axis], mode: str, *, skips: bool = False) -> Term:
    """[N, C, outputs]: the image [N, C, *sizes] at the places of its axes.

    An element outside is 0, times its weight; with ``skips`` it is left out, weight and all.
    """
    e = x.e
    batch, channels, *sizes = x.value.type.shape
    image = Term(e, e.reshape(x.value, (batch, channels, product(sizes))))
    total: Term | None = None
    for taps in itertools.product(*(axis.taps(mode) for axis in axes)):
        found, inside = _read(image, axes, [place for place, _ in taps])
        weight: Term | None = None
        for _, part in taps:
            if part is not None:
                weight = part if weight is None else part * weight
        if weight is not None and skips:
            found = inside.where(found * _a_channel(weight), 0.0)
        else:
            found = inside.where(found, 0.0)
            found = found if weight is None else found * _a_channel(weight)
        total = found if total is None else total + found
    assert total is not None
    return total


def _a_channel(weight: Term) -> Term:
    """[N, outputs] beside [N, C, outputs]."""
    return Term(weight.e, weight.e.unsqueeze(weight.value, 1))


def _read(image: Term, axes: Sequence[Axis], places: Sequence[Term]) -> tuple[Term, Term]:
    """The elements [N, C, outputs] at whole places, and whether the places are inside."""
    e = image.e
    index: Term | None = None
    inside: Term | None = None
    for axis, place in zip(axes, places, strict=True):
        held = axis.held(place)
        whole = held.cast(I64)
        index = whole if index is None else index * size_term(e, axis.size, I64) + whole
        same = held.equals(place)
        inside = same if inside is None else inside & same
    assert index is not None and inside is not None
    shape = (*image.value.type.shape[:2], index.value.type.shape[1])
    wide = e.broadcast(e.unsqueeze(index.value, 1), shape)
    found: Value = e.op("gather_elements", image.value, wide, axis=2)
    return Term(e, found), _a_channel(inside)
