"""DeformConv: a convolution whose taps are moved by an input (DeformConv-19)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.table_conv import kernel_size
from cuvil.ir.core import Value
from cuvil.ir.types import F32, F64, I64, DType
from cuvil.sym.expr import Dim, mul, product

Tap = tuple[Value, Value, Value]  # place, weight, whether it is inside


def _deform_conv(n: Node) -> Value:
    e, x, w = n.e, n[0], n[1]
    kernel = kernel_size(n, w)
    spatial, count = x.type.shape[2:], len(kernel)
    if x.type.rank != count + 2 or n[2].type.rank != count + 2:
        raise InvalidModelError(f"DeformConv: {x.type}, {w.type} and {n[2].type} do not fit")
    groups, shared = n.integer("group", 1), n.integer("offset_group", 1)
    x = n.sized(x, 1, mul(w.type.shape[1], groups), "input channels")
    channels = n.size(x.type.shape, 1, "the number of channels")
    if channels % groups or channels % shared or shared < 1:
        raise InvalidModelError(f"DeformConv: {channels} channels in {groups} and {shared} groups")
    taps, places = math.prod(kernel), n[2].type.shape[2:]
    batch = x.type.shape[0]
    wide = F64 if x.type.dtype == F64 else F32
    moved = e.reshape(n[2], (batch, shared, taps, count, *places))
    axes = [
        _taps(n, _coordinate(n, moved, axis, kernel, wide), spatial[axis]) for axis in range(count)
    ]
    columns = _sampled(n, x, axes, (batch, shared, channels // shared), taps, places, wide)
    if n.has(4):
        mask = e.reshape(n[4], (batch, shared, 1, taps, product(places)))
        columns = e.map("mul", columns, e.cast(mask, wide))
    depth = channels // groups * taps
    columns = e.reshape(columns, (batch, groups, depth, product(places)))
    outputs = n.size(w.type.shape, 0, "the number of output channels")
    rows = e.cast(e.reshape(w, (1, groups, outputs // groups, depth)), wide)
    rows = e.broadcast(rows, (batch, *rows.type.shape[1:]))
    out = e.reshape(e.op("matmul", rows, columns), (batch, outputs, *places))
    if n.has(3):
        out = e.map("add", out, e.cast(e.reshape(n[3], (outputs, *[1] * count)), wide))
    return e.cast(out, x.type.dtype)


def _coordinate(n: Node, moved: Value, axis: int, kernel: Sequence[int], wide: DType) -> Value:
    """Where each tap reads along an axis, [N, groups, taps, places...]."""
    e, count = n.e, len(kernel)
    stride = n.integers("strides", [1] * count)[axis]
    dilation = n.integers("dilations", [1] * count)[axis]
    pad = n.integers("pads", [0] * 2 * count)[axis]
    offset = e.cast(e.squeeze(e.slice(moved, 3, axis, axis + 1), [3]), wide)
    first = np.indices(kernel)[axis].reshape(-1) * dilation - pad
    taps = e.weight(first.astype(wide.numpy).reshape(-1, *[1] * count))
    places = offset.type.shape[3:]
    step = e.op("iota", shape=places, axis=axis, dtype=wide)
    return e.map("add", offset, e.map("add", e.with_scalar("mul", step, stride), taps))


def _taps(n: Node, place: Value, size: Dim) -> tuple[Tap, Tap]:
    """The two elements around a place, their weights; what is outside counts as 0."""
    e = n.e
    low = e.op("floor", place)
    part = e.op("sub", place, low)
    last = e.cast(e.dims([size], scalar=True), place.type.dtype)
    last = e.with_scalar("sub", last, 1)
    found = []
    for at, weight in (
        (low, e.map("sub", e.scalar(1, place.type.dtype), part)),
        (e.with_scalar("add", low, 1), part),
    ):
        held = e.map("min", e.with_scalar("max", at, 0), last)
        found.append((e.cast(held, I64), weight, e.op("eq", held, at)))
    return found[0], found[1]


def _sampled(
    n: Node,
    x: Value,
    axes: Sequence[tuple[Tap, Tap]],
    leading: tuple[Dim, Dim, int],
    taps: int,
    places: Sequence[Dim],
    wide: DType,
) -> Value:
    """The image at every tap, [N, groups, channels of a group, taps, places]."""
    e, spatial = n.e, x.type.shape[2:]
    flat = product((taps, *places))
    image = e.reshape(x, (*leading, product(spatial)))
    shape = (*leading, flat)
    total: Value | None = None
    for corner in itertools.product(*axes):
        index, weight, inside = corner[0]
        for (at, part, valid), size in zip(corner[1:], spatial[1:], strict=True):
            index = e.op("add", e.map("mul", index, e.dims([size], scalar=True)), at)
            weight = e.op("mul", weight, part)
            inside = e.op("and", inside, valid)
        rows = (leading[0], leading[1], 1, flat)
        picks = e.op("gather_elements", image, e.broadcast(e.reshape(index, rows), shape), axis=3)
        picks = e.map("select", e.reshape(inside, rows), e.cast(picks, wide), e.scalar(0, wide))
        picks = e.map("mul", picks, e.reshape(weight, rows))
        total = picks if total is None else e.op("add", total, picks)
    assert total is not None
    return e.reshape(total, (*leading, taps, product(places)))


TABLE: dict[str, Handler] = {"DeformConv": _deform_conv}
