"""Resampling along any axes, separable: ONNX Resize has the modes and their formulas.

Coordinates are computed in f64, and without explicit scales the product comes before the
quotient ((i + 0.5) * in / out - 0.5), so that whole ratios give whole coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import F64, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext
from cuvil.ops.numeric import concrete, narrow_to, wide
from cuvil.sym.expr import mul


@dataclass(frozen=True)
class Taps:
    """For each output position along an axis: the input positions it reads, their weights
    (both [out, taps]), and whether its coordinate lies outside the input ([out])."""

    index: Array
    weight: Array
    outside: Array


def _half_pixel(i: Array, size: int, out: int, scale: float | None) -> Array:
    if scale is None:
        return np.asarray((i + 0.5) * size / out - 0.5)
    return np.asarray((i + 0.5) / scale - 0.5)


def _pytorch_half_pixel(i: Array, size: int, out: int, scale: float | None) -> Array:
    return _half_pixel(i, size, out, scale) if out > 1 else i * 0.0


def _symmetric(i: Array, size: int, out: int, scale: float | None) -> Array:
    centre = 0.0 if scale is None else size / 2 * (1 - out / (scale * size))
    return centre + _half_pixel(i, size, out, scale)


def _align_corners(i: Array, size: int, out: int, scale: float | None) -> Array:
    return np.asarray(i * (size - 1) / (out - 1)) if out > 1 else i * 0.0


def _asymmetric(i: Array, size: int, out: int, scale: float | None) -> Array:
    return np.asarray(i * size / out if scale is None else i / scale)


COORDINATES: Mapping[str, Callable[[Array, int, int, float | None], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
}
CROP = "tf_crop_and_resize"

NEAREST: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _crop(i: Array, size: int, out: int, start: float, end: float) -> Array:
    if out > 1:
        return np.asarray(start * (size - 1) + i * (end - start) * (size - 1) / (out - 1))
    return np.full(i.shape, 0.5 * (start + end) * (size - 1))


def coordinates(attrs: Attrs, axis: int, size: int, out: int) -> Array:
    """Where each output position along ``axis`` lies in the input, f64 [out]."""
    i = np.arange(out, dtype=np.float64)
    if attrs["coordinate"] == CROP:
        rank = len(attrs["roi"]) // 2
        return _crop(i, size, out, attrs["roi"][axis], attrs["roi"][rank + axis])
    scales = attrs.get("scales")
    function = COORDINATES[attrs["coordinate"]]
    return function(i, size, out, scales[axis] if scales else None)


def _triangle(distance: Array) -> Array:
    return np.asarray(np.clip(1 - np.abs(distance), 0, None))


def _cubic(distance: Array, a: float) -> Array:
    """Keys 1981, eq. 15 with free parameter ``a``."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def axis_taps(attrs: Attrs, axis: int, size: int, out: int) -> Taps:
    """The taps along one axis from ``size`` (>= 1) to ``out`` positions."""
    x = coordinates(attrs, axis, size, out)
    outside = (x < 0) | (x > size - 1) if attrs["coordinate"] == CROP else np.zeros(out, bool)
    if attrs["mode"] == "nearest":
        index = NEAREST[attrs["nearest"]](x).clip(0, size - 1).astype(np.int64)
        return Taps(index[:, None], np.ones((out, 1)), outside)
    radius = 1 if attrs["mode"] == "linear" else 2
    scales = attrs.get("scales")
    scale = scales[axis] if scales else out / size
    shrink = min(scale, 1.0) if attrs.get("antialias", False) else 1.0
    reach = int(np.ceil(radius / shrink))
    index = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    distance = (index - x[:, None]) * shrink
    if radius == 1:
        weight = _triangle(distance)
    else:
        weight = _cubic(distance, attrs.get("cubic_coeff", -0.75))
    if attrs.get("exclude_outside", False):
        weight = np.where((index >= 0) & (index < size), weight, 0)
    if attrs.get("exclude_outside", False) or shrink != 1:
        weight = weight / weight.sum(axis=1, keepdims=True)
    return Taps(index.clip(0, size - 1), weight, outside)


def is_identity(attrs: Attrs, axis: int, size: object, out: object) -> bool:
    """Whether the axis is left as it is. Scales that are an operand are not asked here."""
    scales = attrs.get("scales")
    return size == out and attrs["coordinate"] != CROP and (not scales or scales[axis] == 1)


def _check(types: Sequence[TensorType], attrs: Attrs) -> None:
    x = types[0]
    if attrs["mode"] not in ("nearest", "linear", "cubic"):
        raise InvalidModelError(f"resize has no mode {attrs['mode']!r}")
    if attrs["mode"] == "nearest" and attrs.get("nearest") not in NEAREST:
        raise InvalidModelError(f"resize has no nearest mode {attrs.get('nearest')!r}")
    if attrs["mode"] != "nearest" and not x.dtype.is_float:
        raise InvalidModelError(f"resize {attrs['mode']} is not defined for {x.dtype}")
    if attrs["coordinate"] not in (*COORDINATES, CROP):
        raise InvalidModelError(f"resize has no coordinate mode {attrs['coordinate']!r}")
    if attrs["coordinate"] == CROP and len(attrs.get("roi") or ()) != 2 * x.rank:
        raise InvalidModelError("resize: tf_crop_and_resize needs a roi of starts, then ends")
    for key in ("sizes", "scales"):
        if attrs.get(key) is not None and len(attrs[key]) != x.rank:
            raise InvalidModelError(f"resize: {key} needs one entry for each dimension of {x}")
    if any(s <= 0 for s in attrs.get("scales") or ()):
        raise InvalidModelError("resize: scales must be positive")
    if len(types) > 1:
        _check_operand(types[1], attrs)


def _check_operand(scales: TensorType, attrs: Attrs) -> None:
    if scales.rank != 1 or scales.dtype != F64:
        raise InvalidModelError(f"resize: scales {scales} are no vector of f64")
    if attrs.get("scales") or attrs.get("antialias", False) or attrs["coordinate"] == CROP:
        raise InvalidModelError("resize: scales that are an operand go with no filter and no roi")


def _infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    x = types[0]
    _check(types, attrs)
    if len(types) > 1:
        ctx.require(types[1].shape[0], "==", x.rank, "resize: a scale for each dimension")
    for axis, (size, out) in enumerate(zip(x.shape, attrs["sizes"], strict=True)):
        ctx.require(out, ">=", 0, f"resize: dimension {axis} of the output")
        moved = len(types) > 1 or not is_identity(attrs, axis, size, out)
        if moved and out != 0:
            ctx.require(size, ">=", 1, f"resize: an element along dimension {axis}")
    return [x.with_shape(tuple(attrs["sizes"]))]


def _reference(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
    x = np.asarray(arrays[0])
    if len(arrays) > 1:
        attrs = {**attrs, "scales": tuple(map(float, arrays[1]))}
    exact = attrs["mode"] == "nearest"
    value = x if exact else wide(x)
    shape = concrete(results[0])
    outside = np.zeros(shape, bool)
    with np.errstate(all="ignore"):
        for axis, size in enumerate(x.shape):
            out = shape[axis]
            if is_identity(attrs, axis, size, out):
                continue
            column = [-1 if i == axis else 1 for i in range(x.ndim)]
            if size == 0:
                value = np.zeros((*value.shape[:axis], 0, *value.shape[axis + 1 :]), value.dtype)
                continue
            taps = axis_taps(attrs, axis, size, out)
            outside = outside | taps.outside.reshape(column)
            picks = [np.take(value, i, axis=axis) for i in taps.index.T]
            if exact:
                value = picks[0]
                continue
            value = sum(
                (p * w.reshape(column) for p, w in zip(picks, taps.weight.T, strict=True)),
                np.zeros(1),
            )
    if attrs["coordinate"] == CROP:
        fill = np.asarray(attrs.get("extrapolation", 0.0))
        value = np.where(outside, fill.astype(value.dtype), value)
    return [narrow_to(value, results[0])]


def _cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    """Two operations a tap; two axes are the usual number."""
    taps = {"nearest": 1, "linear": 8, "cubic": 32}[attrs["mode"]]
    return Cost(mul(results[0].elements, taps))


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.resize", "kernel", _infer, _reference, (1, 2),
        {
            "sizes": "dims", "mode": "str", "coordinate": "str", "nearest": "str?",
            "cubic_coeff": "float?", "scales": "floats?", "exclude_outside": "bool?",
            "antialias": "bool?", "extrapolation": "float?", "roi": "floats?",
        },
        "accumulated", _cost,
        doc="Edges repeat. With antialias the filter is widened by 1 / scale where it shrinks."
        " Scales may be a second operand, f64.",
    ),
]  # fmt: skip
