"""grid_sample: images and volumes at given places."""

from __future__ import annotations

from cuvil.frontends.formula import Term
from cuvil.frontends.sampling import PADDINGS, Axis, sampled, size_term
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.ir.core import Value
from cuvil.sym.expr import Dim, product

_MODES = ("linear", "nearest", "cubic")


def _place(e: Term, size: Dim, corners: bool) -> Term:
    """From [-1, 1] to elements (GridSamplerKernel.cpp)."""
    whole = size_term(e.e, size, e.dtype)
    if corners:
        return (e + 1.0) * ((whole - 1.0) / 2.0)
    return (e + 1.0) * (whole / 2.0) - 0.5


def _grid_sample(c: Call) -> Value:
    """Torch's kernel of volumes takes the last element where that of images takes the first, and
    does not multiply by 0 what lies outside."""
    e, x, grid = c.e, c.tensor("input"), c.tensor("grid")
    mode, padding = _MODES[c["interpolation_mode"]], PADDINGS[c["padding_mode"]]
    corners = bool(c["align_corners"])
    batch, channels, *sizes = x.type.shape
    count = len(sizes)
    if mode == "cubic" and count > 2:
        raise Refused("cubic sampling of volumes")
    if 0 in x.type.shape or 0 in grid.type.shape:
        return e.broadcast(e.scalar(0, x.type.dtype), c.shape)
    outputs = grid.type.shape[1:-1]
    flat = e.reshape(grid, (batch, product(outputs), count))
    axes = []
    for i, size in enumerate(sizes):
        at = count - 1 - i  # (x, y, z) are columns, rows, planes
        column = Term(e, e.squeeze(e.slice(flat, 2, at, at + 1), [2]))
        lost = "last" if count > 2 else "first"
        axes.append(Axis(_place(column, size, corners), size, padding, corners, lost))
    found = sampled(Term(e, x), axes, mode, skips=count > 2)
    return e.reshape(found.value, (batch, channels, *outputs))


RULES: dict[str, Rule] = {"grid_sampler_2d": _grid_sample, "grid_sampler_3d": _grid_sample}
