"""Pooling over regions of an image: RoiAlign (He et al. 2017) and RoI pooling (Girshick 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext, same_dtype
from cuvil.ops.numeric import narrow_to, need_float, wide
from cuvil.sym.expr import mul

MODES = ("avg", "max")


def _check(types: Sequence[TensorType], attrs: Attrs, columns: int, name: str) -> None:
    x, rois = types[0], types[1]
    same_dtype(types[:2], name)
    need_float(x, name)
    if x.rank != 4 or rois.rank != 2 or rois.shape[1] != columns:
        raise InvalidModelError(f"{name} takes [N, C, H, W] and [R, {columns}], got {x} and {rois}")
    if attrs["height"] < 1 or attrs["width"] < 1:
        raise InvalidModelError(f"{name}: a result of {attrs['height']} x {attrs['width']}")


def _align_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    _check(types, attrs, 4, "roi_align")
    x, rois, batch = types
    if not batch.dtype.is_integer or batch.rank != 1:
        raise InvalidModelError(f"roi_align: batch indices are integers [R], not {batch}")
    if attrs["mode"] not in MODES:
        raise InvalidModelError(f"roi_align: mode {attrs['mode']!r} is not one of {MODES}")
    count = ctx.same(rois.shape[0], batch.shape[0], "roi_align: number of regions")
    return [x.with_shape((count, x.shape[1], attrs["height"], attrs["width"]))]


def _samples(start: float, bin_size: float, ratio: int, size: int) -> tuple[Array, float]:
    """Places of a bin's samples along one axis, those outside [-1, size] left out, and how many
    there are with them."""
    count = float(ratio) if ratio > 0 else float(np.ceil(bin_size))
    if count <= 0:
        return np.zeros(0), 0.0
    step = bin_size / count
    low, high = 0.0, count
    if step > 0:
        low = max(low, float(np.floor((-1 - start) / step)) - 1)
        high = min(high, 1 - float(np.floor((start - size) / step)))
    tries = int(high - low) if high > low else 0
    at = start + (low + np.arange(tries) + 0.5) * step
    return at[(at >= -1) & (at <= size)], count


def _around(at: Array, size: int) -> tuple[Array, Array, Array]:
    """(lower element, upper element, weight of the upper one) of places within [-1, size]."""
    at = np.maximum(at, 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    return low, high, np.where(low >= size - 1, 0.0, at - low)


def _corners(image: Array, ys: Array, xs: Array) -> Array:
    """The four weighted elements around every place, [4, C, y, x]."""
    y0, y1, wy = _around(ys, image.shape[1])
    x0, x1, wx = _around(xs, image.shape[2])
    parts = [
        (u * v)[None] * image[:, r][:, :, c]
        for r, u in ((y0, 1 - wy[:, None]), (y1, wy[:, None]))
        for c, v in ((x0, 1 - wx[None]), (x1, wx[None]))
    ]
    return np.stack(parts)


def _bins(roi: Array, attrs: Attrs, image: Array) -> Iterator[tuple[int, int, Array]]:
    """(row, column, value of each channel) of one region's result."""
    offset = 0.5 if attrs["half_pixel"] else 0.0
    left, top, right, bottom = roi * attrs["scale"] - offset
    width, height = right - left, bottom - top
    if not attrs["half_pixel"]:
        width, height = max(width, 1.0), max(height, 1.0)
    step_y, step_x = height / attrs["height"], width / attrs["width"]
    ratio = attrs["sampling_ratio"]
    for i in range(attrs["height"]):
        ys, down = _samples(top + i * step_y, step_y, ratio, image.shape[1])
        for j in range(attrs["width"]):
            xs, across = _samples(left + j * step_x, step_x, ratio, image.shape[2])
            parts = _corners(image, ys, xs)
            if attrs["mode"] == "avg":
                yield i, j, parts.sum((0, 2, 3)) / max(down * across, 1.0)
                continue
            best = parts.max((0, 2, 3), initial=-np.inf)
            all_inside = down * across == len(ys) * len(xs) > 0
            yield i, j, best if all_inside else np.maximum(best, 0.0)


def _align_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x, rois = wide(np.asarray(arrays[0])), wide(np.asarray(arrays[1]))
    batch = np.asarray(arrays[2]).astype(np.int64)
    if ((batch < 0) | (batch >= x.shape[0])).any():
        raise IndexError(f"a region of an image that is not one of {x.shape[0]}")
    out = np.full((len(rois), x.shape[1], attrs["height"], attrs["width"]), np.nan)
    with np.errstate(all="ignore"):
        for r, roi in enumerate(rois):
            ends = roi * attrs["scale"]
            if np.isfinite([*ends, *(ends[2:] - ends[:2])]).all() and 0 not in x.shape:
                for i, j, value in _bins(roi, attrs, x[batch[r]]):
                    out[r, :, i, j] = value
    return [narrow_to(out, results[0])]


def _pool_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    _check(types, attrs, 5, "roi_max_pool")
    x, rois = types
    return [x.with_shape((rois.shape[0], x.shape[1], attrs["height"], attrs["width"]))]


def _edges(start: int, size: int, i: int, bins: int, limit: int) -> tuple[int, int]:
    low, high = start + i * size // bins, start - (-(i + 1) * size // bins)
    return min(max(low, 0), limit), min(max(high, 0), limit)


def _pool_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x, rois = wide(np.asarray(arrays[0])), wide(np.asarray(arrays[1]))
    rows, columns = attrs["height"], attrs["width"]
    out = np.zeros((len(rois), x.shape[1], rows, columns))
    for r, (image, *corners) in enumerate(rois):
        if not 0 <= image < x.shape[0]:
            raise IndexError(f"a region of an image that is not one of {x.shape[0]}")
        scaled = np.array(corners) * attrs["scale"]
        if not (np.abs(scaled) < 2.0**31).all():
            out[r] = np.nan
            continue
        # Halves are rounded away from 0.
        ends = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64)
        left, top, right, bottom = map(int, ends)
        for i in range(rows):
            y0, y1 = _edges(top, max(bottom - top + 1, 1), i, rows, x.shape[2])
            for j in range(columns):
                x0, x1 = _edges(left, max(right - left + 1, 1), j, columns, x.shape[3])
                window = x[int(image), :, y0:y1, x0:x1]
                if window.size:
                    out[r, :, i, j] = window.max((1, 2))
    return [narrow_to(out, results[0])]


def _cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    """Four products for each of some four samples of a bin."""
    return Cost(mul(results[0].elements, 16))


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.roi_align", "kernel", _align_infer, _align_reference, (3, 3),
        {"height": "int", "width": "int", "sampling_ratio": "int", "scale": "float",
         "half_pixel": "bool", "mode": "str"},
        "accumulated", _cost,
        doc="x [N, C, H, W], regions [R, 4] (x1, y1, x2, y2), their images [R]: the mean or"
        " greatest of bilinear samples in each of height x width bins. A sampling_ratio of 0"
        " takes as many samples as a bin is elements wide. A region that isn't finite gives NaN.",
    ),
    OpDef(
        "cuvil.roi_max_pool", "kernel", _pool_infer, _pool_reference, (2, 2),
        {"height": "int", "width": "int", "scale": "float"}, "exact", _cost,
        doc="x [N, C, H, W], regions [R, 5] (image, x1, y1, x2, y2): the greatest element of each"
        " of height x width bins, 0 for an empty one. A region that isn't finite gives NaN.",
    ),
]  # fmt: skip
