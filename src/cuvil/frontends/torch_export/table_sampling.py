"""Interpolation with antialiasing."""

from __future__ import annotations

import functools

import numpy as np

from cuvil.frontends.torch_export.byte_resize import resized_bytes, scale_of
from cuvil.frontends.torch_export.call import Call, Rule
from cuvil.frontends.torch_export.resize_tables import Axis, antialiased
from cuvil.ir.core import Value
from cuvil.ir.types import U8


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
        corners = bool(c.get("align_corners", False))
        if x.type.dtype == U8:
            late = functools.partial(antialiased, cubic=cubic)
            return resized_bytes(c, corners, lambda s, o, scale: _weights(s, o, scale, cubic), late)
        given = c.args.get("scale_factors") or [c.args.get("scales_h"), c.args.get("scales_w")]
        tables = []
        for axis, factor in zip((2, 3), given, strict=True):
            size, out = x.type.shape[axis], c.shape[axis]
            if not isinstance(size, int) or not isinstance(out, int):
                table = antialiased(c, Axis(size, out, factor, corners), cubic)
                tables.append(e.cast(table, c.dtype))
                continue
            scale = scale_of(size, out, factor, corners)
            tables.append(e.weight(_weights(size, out, scale, cubic).astype(c.dtype.numpy)))
        return e.op("matmul", tables[0], e.op("matmul", x, tables[1], trans_b=True))

    return rule


RULES: dict[str, Rule] = {
    "_upsample_bilinear2d_aa": _antialiased(False), "_upsample_bicubic2d_aa": _antialiased(True),
}  # fmt: skip
