"""Resampling: interpolation with antialiasing, and reading volumes at given places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import I64


def _hat(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: np.ndarray) -> np.ndarray:
    """Keys' cubic with a = -0.5, as antialiasing has it."""
    a, x = -0.5, np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _weights(size: int, out: int, scale: float, cubic: bool) -> np.ndarray:
    """[out, size]: how much each input counts (ATen's compute_indices_weights_aa)."""
    half = 2.0 if cubic else 1.0
    support = half * max(scale, 1.0)
    table = np.zeros((out, size))
    for i in range(out):
        centre = scale * (i + 0.5)
        first = max(int(centre - support + 0.5), 0)
        last = min(int(centre + support + 0.5), size)
        places = np.arange(first, last)
        row = (_cubic if cubic else _hat)((places - centre + 0.5) / max(scale, 1.0))
        table[i, first:last] = row / row.sum() if row.sum() else 0
    return table


def _antialiased(cubic: bool) -> Rule:
    """A product with a table of weights along each axis."""

    def rule(c: Call) -> Value:
        x, e = c.first, c.e
        given = c.args.get("scale_factors") or [c.args.get("scales_h"), c.args.get("scales_w")]
        tables = []
        for axis, factor in zip((2, 3), given, strict=True):
            size, out = x.type.shape[axis], c.shape[axis]
            if not isinstance(size, int) or not isinstance(out, int):
                raise Refused("antialiasing of a symbolic size")
            if c.get("align_corners", False):
                scale = (size - 1) / (out - 1) if out > 1 else 0.0
            else:
                scale = 1 / float(factor) if factor else size / out
            tables.append(e.weight(_weights(size, out, scale, cubic).astype(c.dtype.numpy)))
        return e.op("matmul", tables[0], e.op("matmul", x, tables[1], trans_b=True))

    return rule


def _unnormalized(place: Term, size: int, padding: int, corners: bool) -> Term:
    """From [-1, 1] to elements, brought inside by the padding mode (1 border, 2 reflection)."""
    place = (place + 1) / 2 * (size - 1) if corners else ((place + 1) * size - 1) / 2
    if padding == 2:
        low, span = (0.0, float(size - 1)) if corners else (-0.5, float(size))
        if span == 0:
            return place * 0
        gap = abs(place - low)
        rest, flips = gap.map("fmod", span), (gap / span).map("floor")
        even = flips.map("fmod", 2.0).equals(0)
        place = even.where(rest + low, (span - rest) + low)
    return place.map("max", 0.0).map("min", float(size - 1)) if padding else place


def _read(c: Call, volume: Value, places: Sequence[Term], sizes: Sequence[int]) -> Term:
    """[N, ..., C]: the elements at whole places, 0 outside."""
    e = c.e
    flat: Term | None = None
    inside: Term | None = None
    for place, size in zip(places, sizes, strict=True):
        good = (place >= 0.0) & (place <= float(size - 1))
        inside = good if inside is None else inside & good
        index = place.map("max", 0.0).map("min", float(size - 1)).cast(I64)
        flat = index if flat is None else flat * size + index
    assert flat is not None and inside is not None
    found = e.op("gather_nd", volume, e.unsqueeze(flat.value, -1), batch_dims=1)
    keep = Term(e, e.unsqueeze(inside.value, -1))
    return keep.where(Term(e, found), 0.0)


def _grid_sample_3d(c: Call) -> Value:
    """Volumes [N, C, D, H, W] at the places [N, ..., (x, y, z)], by the nearest element or between
    the eight around."""
    e, x, grid = c.e, c.tensor("input"), c.tensor("grid")
    padding, corners = int(c["padding_mode"]), bool(c["align_corners"])
    n, channels, *given = x.type.shape
    sizes = [d for d in given if isinstance(d, int)]
    if len(sizes) != 3:
        raise Refused("sampling a volume of symbolic size")
    if 0 in x.type.shape or 0 in grid.type.shape:
        return e.broadcast(e.scalar(0, x.type.dtype), c.shape)
    volume = e.transpose(e.reshape(x, (n, channels, math.prod(sizes))), [0, 2, 1])
    rank = grid.type.rank
    where = []
    for axis, size in enumerate(sizes):
        column = e.squeeze(e.slice(grid, rank - 1, 2 - axis, 3 - axis), [rank - 1])
        where.append(_unnormalized(Term(e, column), size, padding, corners))
    if c["interpolation_mode"] == 1:
        out = _read(c, volume, [p.map("round") for p in where], sizes)
    elif c["interpolation_mode"] == 0:
        out = _between(c, volume, where, sizes)
    else:
        raise Refused("cubic sampling of volumes")
    return e.transpose(out.value, [0, rank - 1, *range(1, rank - 1)])


def _between(c: Call, volume: Value, where: Sequence[Term], sizes: Sequence[int]) -> Term:
    total: Term | None = None
    floors = [p.map("floor") for p in where]
    for steps in itertools.product((0, 1), repeat=3):
        places = [f + float(s) for f, s in zip(floors, steps, strict=True)]
        weight: Term | None = None
        for p, f, s in zip(where, floors, steps, strict=True):
            part = p - f if s else (f + 1.0) - p
            weight = part if weight is None else weight * part
        assert weight is not None
        column = Term(c.e, c.e.unsqueeze(weight.value, -1))
        term = _read(c, volume, places, sizes) * column
        total = term if total is None else total + term
    assert total is not None
    return total


RULES: dict[str, Rule] = {
    "_upsample_bilinear2d_aa": _antialiased(False), "_upsample_bicubic2d_aa": _antialiased(True),
    "grid_sampler_3d": _grid_sample_3d,
}  # fmt: skip
