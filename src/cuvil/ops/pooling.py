"""Pooling over sliding windows in one, two or three spatial dimensions.

Pads are not negative. A window sees only input elements: padding never wins a maximum, and counts
for an average only where ``count_include_pad`` says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import I64, DType, TensorType
from cuvil.ops.base import Array, Attrs, Cost, Infer, OpDef, ShapeContext
from cuvil.ops.numeric import comparable, concrete, narrow_to, wide
from cuvil.ops.reduction import lowest
from cuvil.ops.windows import (
    WINDOW_ATTRS,
    check_windows,
    join_dims,
    padded,
    spatial_dims,
    tap_slices,
    window_count,
)
from cuvil.sym.expr import mul


def _infer(name: str, kinds: str, result: DType | None) -> Infer:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        x = types[0]
        if x.dtype.kind not in kinds:
            raise InvalidModelError(f"{name} is not defined for {x.dtype}")
        check_windows(attrs, ("kernel", *WINDOW_ATTRS), x.rank - 2, name)
        if min(*attrs["pads_lo"], *attrs["pads_hi"]) < 0:
            raise InvalidModelError(f"{name} takes no negative pads", hint="slice before pooling")
        last = attrs.get("channels_last", False)
        sizes = zip(spatial_dims(x.shape, last), attrs["kernel"], strict=True)
        counts = [window_count(ctx, d, k, attrs, i, name) for i, (d, k) in enumerate(sizes)]
        channels = x.shape[-1 if last else 1]
        return [TensorType(join_dims(x.shape[0], channels, counts, last), result or x.dtype)]

    return infer


class _Windows:
    """The windows of one call, over [N, C, *spatial]."""

    def __init__(self, x: Array, attrs: Attrs, result: TensorType) -> None:
        self.last = attrs.get("channels_last", False)
        self.x = np.moveaxis(x, -1, 1) if self.last else x
        self.attrs = attrs
        self.sizes = self.x.shape[2:]
        self.counts = spatial_dims(concrete(result), self.last)
        self.shape = (*self.x.shape[:2], *self.counts)
        self.taps = list(np.ndindex(*attrs["kernel"]))

    def padded(self, fill: float) -> Array:
        """The input with as much padding as the windows reach (more than asked in ceil mode)."""
        a = self.attrs
        reach = [
            max(n - 1, 0) * s + d * (k - 1) + 1
            for n, s, d, k in zip(
                self.counts, a["strides"], a["dilations"], a["kernel"], strict=True
            )
        ]
        hi = [r - size - lo for r, size, lo in zip(reach, self.sizes, a["pads_lo"], strict=True)]
        return padded(self.x, a["pads_lo"], hi, fill)

    def seen(self, tap: Sequence[int], of: Array) -> Array:
        """What each window sees at one place of the kernel."""
        a = self.attrs
        return np.asarray(of[tap_slices(tap, a["dilations"], a["strides"], self.counts)])

    def positions(self, axis: int, tap: int) -> Array:
        """Unpadded coordinates along one axis of what each window sees at ``tap``."""
        a = self.attrs
        first = tap * a["dilations"][axis] - a["pads_lo"][axis]
        return np.asarray(first + np.arange(self.counts[axis]) * a["strides"][axis])

    def give(self, out: Array, result: TensorType) -> list[Array]:
        return [narrow_to(np.moveaxis(out, 1, -1) if self.last else out, result)]


def _max_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x = comparable(np.asarray(arrays[0]))
    windows = _Windows(x, attrs, results[0])
    least = lowest(x.dtype)
    source = windows.padded(least.item())
    best = np.full(windows.shape, least, x.dtype)
    for tap in windows.taps:
        best = np.maximum(best, windows.seen(tap, source))
    return windows.give(best, results[0])


def _indices_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """The first greatest element (NaN is greater than all); 0 for a window of padding only."""
    x = comparable(np.asarray(arrays[0]))
    windows = _Windows(x, attrs, results[0])
    source = windows.padded(0)
    best = np.zeros(windows.shape, x.dtype)
    where = np.zeros(windows.shape, np.int64)
    found = np.zeros(windows.shape, bool)
    spatial = len(windows.sizes)
    for tap in windows.taps:
        value = windows.seen(tap, source)
        inside = np.ones(windows.counts, bool)
        flat = np.zeros(windows.counts, np.int64)
        for axis in range(spatial):
            at = windows.positions(axis, tap[axis])
            at = at.reshape([-1 if i == axis else 1 for i in range(spatial)])
            inside &= (at >= 0) & (at < windows.sizes[axis])
            flat = flat * windows.sizes[axis] + at
        wins = inside & (~found | (value > best) | ((value != value) & (best == best)))
        best, where = np.where(wins, value, best), np.where(wins, flat, where)
        found |= inside
    return windows.give(where, results[0])


def _average_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """Sum of the elements inside, by their number; with count_include_pad by the number of those
    inside the padded input (but not what ceil mode adds). 0 where that number is 0."""
    windows = _Windows(wide(np.asarray(arrays[0])), attrs, results[0])
    source = windows.padded(0)
    total = np.zeros(windows.shape)
    with np.errstate(all="ignore"):
        for tap in windows.taps:
            total = total + windows.seen(tap, source)
        count = np.ones(windows.counts, np.int64)
        for axis, size in enumerate(windows.sizes):
            lo, hi = 0, size
            if attrs["count_include_pad"]:
                lo, hi = -attrs["pads_lo"][axis], size + attrs["pads_hi"][axis]
            line = np.zeros(windows.counts[axis], np.int64)
            for t in range(attrs["kernel"][axis]):
                at = windows.positions(axis, t)
                line += (at >= lo) & (at < hi)
            count = count * line.reshape([-1 if i == axis else 1 for i in range(count.ndim)])
        return windows.give(np.where(count == 0, 0, total / count), results[0])


def _cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    return Cost(mul(results[0].elements, int(np.prod(attrs["kernel"], dtype=np.int64))))


_ATTRS = {"kernel": "ints", **WINDOW_ATTRS, "ceil_mode": "bool?", "channels_last": "bool?"}

DEFS: list[OpDef] = [
    OpDef(
        "cuvil.max_pool", "kernel", _infer("max_pool", "fiu", None), _max_reference, (1, 1),
        _ATTRS, cost=_cost,
        doc="NaN propagates; a window of padding only gives -inf (the least integer).",
    ),
    OpDef(
        "cuvil.max_pool_indices", "kernel", _infer("max_pool_indices", "fiu", I64),
        _indices_reference, (1, 1), _ATTRS, cost=_cost,
        doc="i64 flat index into each [*spatial] plane of the element that max_pool gives.",
    ),
    OpDef(
        "cuvil.avg_pool", "kernel", _infer("avg_pool", "f", None), _average_reference, (1, 1),
        {**_ATTRS, "count_include_pad": "bool"}, "accumulated", _cost,
    ),
]  # fmt: skip
