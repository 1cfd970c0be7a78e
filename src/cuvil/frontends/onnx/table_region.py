"""Regions of images, determinants, and the mel filter bank."""

from __future__ import annotations

import math

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.table_shape import index_grid
from cuvil.frontends.onnx.types import dtype_from
from cuvil.ir.core import Value
from cuvil.ir.types import F32, F64, I32
from cuvil.sym.expr import add, floordiv


def _roi_align(n: Node) -> Value:
    """Before opset 16 coordinates are not moved by half an element (RoiAlign-10, -16)."""
    if n.version >= 16:
        mode = n.text("coordinate_transformation_mode", "half_pixel")
    else:
        mode = "output_half_pixel"
    if mode not in ("half_pixel", "output_half_pixel"):
        raise InvalidModelError(f"RoiAlign: coordinate_transformation_mode {mode!r} is unknown")
    return n.e.op(
        "roi_align", n[0], n[1], n[2], height=n.integer("output_height", 1),
        width=n.integer("output_width", 1), sampling_ratio=n.integer("sampling_ratio", 0),
        scale=n.number("spatial_scale", 1.0), half_pixel=mode == "half_pixel",
        mode=n.text("mode", "avg"),
    )  # fmt: skip


def _max_roi_pool(n: Node) -> Value:
    height, width = n.integers("pooled_shape")
    return n.e.op(
        "roi_max_pool", n[0], n[1], height=height, width=width,
        scale=n.number("spatial_scale", 1.0),
    )  # fmt: skip


def _det(n: Node) -> Value:
    """The product of the pivots, negative for an odd number of exchanged rows."""
    e = n.e
    if n[0].type.rank < 2:
        raise InvalidModelError(f"Det needs matrices, got {n[0].type}")
    x = n[0] if n.dtype() == F64 else e.cast(n[0], F32)
    factors, pivots, _ = e.results("lu_factor", x, pivot=True)
    axis = x.type.rank - 2
    row, column = index_grid(n, factors.type.shape)
    diagonal = e.map("select", e.op("eq", row, column), factors, e.scalar(0, x.type.dtype))
    diagonal = e.op("reduce_sum", diagonal, axes=(axis + 1,), keepdims=False)
    out = e.op("reduce_prod", diagonal, axes=(axis,), keepdims=False)
    line = e.op("iota", shape=pivots.type.shape, axis=axis, dtype=I32)
    moved = e.cast(e.op("ne", pivots, e.with_scalar("add", line, 1)), I32)
    odd = e.with_scalar("mod", e.op("reduce_sum", moved, axes=(axis,), keepdims=False), 2)
    sign = e.with_scalar("add", e.with_scalar("mul", e.cast(odd, x.type.dtype), -2), 1)
    return e.cast(e.op("mul", out, sign), n.dtype())


def _mel_weight_matrix(n: Node) -> Value:
    """Triangles over spectrogram bins, their corners evenly apart in mel (MelWeightMatrix-17)."""
    e = n.e
    count, length = (n.dims(i, "the size of the matrix")[0] for i in range(2))
    rate, low, high = (e.cast(e.reshape(n[i], ()), F64) for i in (2, 3, 4))

    def mel(hertz: Value) -> Value:
        grown = e.op("log1p", e.with_scalar("div", hertz, 700))
        return e.with_scalar("mul", grown, 2595 / math.log(10))

    corners = add(count, 2)
    corner_count = e.cast(e.dims([corners], scalar=True), F64)
    step = e.op("div", e.op("sub", mel(high), mel(low)), corner_count)
    place = e.op("iota", shape=(corners,), axis=0, dtype=F64)
    place = e.map("add", e.map("mul", place, step), mel(low))
    hertz = e.op("expm1", e.with_scalar("mul", place, math.log(10) / 2595))
    hertz = e.with_scalar("mul", hertz, 700)
    scale = e.cast(e.dims([add(length, 1)], scalar=True), F64)
    bins = e.op("floor", e.map("div", e.map("mul", hertz, scale), rate))
    left, centre, right = (e.slice(bins, 0, i, add(count, i)) for i in range(3))
    rows = add(floordiv(length, 2), 1)
    row = e.op("iota", shape=(rows, count), axis=0, dtype=F64)
    rising = e.map("div", e.map("sub", row, left), e.map("sub", centre, left))
    falling = e.map("div", e.map("sub", right, row), e.map("sub", right, centre))
    zero = e.scalar(0, F64)
    up = e.op("and", e.map("ge", row, left), e.map("le", row, centre))
    down = e.op("and", e.map("ge", row, centre), e.map("lt", row, right))
    # Where a triangle has no width its centre is 1.
    peak = e.map("and", e.map("eq", row, centre), e.op("eq", left, centre))
    out = e.map("select", up, rising, zero)
    out = e.map("select", peak, e.scalar(1, F64), out)
    out = e.map("select", down, falling, out)
    asked = n.integer("output_datatype", 1)
    return e.cast(out, dtype_from(asked) if asked else F32)


TABLE: dict[str, Handler] = {
    "RoiAlign": _roi_align,
    "MaxRoiPool": _max_roi_pool,
    "Det": _det,
    "MelWeightMatrix": _mel_weight_matrix,
}
