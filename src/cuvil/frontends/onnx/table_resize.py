"""Resize and its forebear Upsample."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.formula import Term
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import F32, F64, I64
from cuvil.sym.expr import Dim, Expr, floordiv, mul

_FINE = 2.0**26
_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}


def scaled_size(n: Node, size: Dim, scale: float) -> Dim:
    """floor(size * scale), in f32 for a plain size as runtimes compute it; exact for a symbol."""
    if not np.isfinite(scale) or scale <= 0:
        raise InvalidModelError(f"{n.op}: a scale of {scale}")
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * np.float32(scale)))
    ratio = Fraction(scale)
    if ratio.denominator > 1024:
        ratio = Fraction(scale).limit_denominator(1024)
        if np.float32(ratio.numerator) / np.float32(ratio.denominator) != np.float32(scale):
            raise Refused(f"scale {scale} of a symbolic dimension is no simple fraction")
    return n.e.simplify(floordiv(mul(size, ratio.numerator), ratio.denominator))


def _scales(n: Node, index: int) -> list[float] | None:
    if not n.has(index) or n[index].type.elements == 0:
        return None
    array = n.knowledge.array(n[index])
    if array is not None:
        return [float(s) for s in array.reshape(-1)]
    return None


def _upsample(n: Node) -> Value:
    """Upsample-9: output pixel i reads input floor(i / scale)."""
    if n.version < 7:
        scales = [1.0, 1.0, n.number("height_scale"), n.number("width_scale")]
    elif n.version < 9:
        scales = [float(s) for s in n.attrs["scales"]]
    elif n.knowledge.array(n[1]) is None:
        sizes, given = _data_scales(n, 1, list(range(n[0].type.rank)))
        mode = _mode(n)
        return _of_any_type(
            n, n[0], given, sizes=tuple(sizes), mode=mode, coordinate="asymmetric",
            nearest="floor" if mode == "nearest" else None,
        )  # fmt: skip
    else:
        scales = [float(s) for s in n.constant(1, "the scales").reshape(-1)]
    return _old(n, scales)


def _old(n: Node, scales: list[float]) -> Value:
    """Asymmetric coordinates; nearest rounds down, and up along dims that shrink, as runtimes
    do for Resize-10."""
    mode = _mode(n)
    x = n[0]
    if mode != "nearest" or n.op == "Upsample":
        return _emit(n, x, scales, mode, "floor")
    grow = [max(s, 1.0) for s in scales]
    shrink = [min(s, 1.0) for s in scales]
    return _emit(n, _emit(n, x, grow, mode, "floor"), shrink, mode, "ceil")


def _emit(n: Node, x: Value, scales: list[float], mode: str, nearest: str) -> Value:
    if all(s == 1 for s in scales):
        return x
    if len(scales) != x.type.rank:
        raise InvalidModelError(f"{n.op}: {len(scales)} scales for {x.type}")
    sizes = tuple(scaled_size(n, d, s) for d, s in zip(x.type.shape, scales, strict=True))
    return _of_any_type(
        n, x, None, sizes=sizes, mode=mode, coordinate="asymmetric", scales=tuple(scales),
        nearest=nearest if mode == "nearest" else None,
    )  # fmt: skip


def _of_any_type(n: Node, x: Value, given: Value | None, **attrs: Any) -> Value:
    """Integers are interpolated in f64 and rounded, halves to even; what cubic weights take out of
    their range becomes the range's end (as ONNX's reference evaluator has it).

    A half is one if it is so within 2^-27, as weights such as 1/6 are no binary fractions.
    """
    e, kind = n.e, x.type.dtype
    scales = [given] if given is not None else []
    if attrs["mode"] == "nearest" or kind.is_float or kind.is_narrow:
        return e.op("resize", x, *scales, **attrs)
    if not kind.is_integer:
        return e.cast(e.op("resize", e.cast(x, F32), *scales, **attrs), kind)
    out = Term(e, e.op("resize", e.cast(x, F64), *scales, **attrs))
    out = ((out * _FINE).map("round") / _FINE).map("round")
    ends = np.iinfo(kind.numpy)
    out = out.map("max", float(ends.min))
    if kind.size < 8:  # a cast from beyond 64 bits gives their greatest
        out = out.map("min", float(ends.max))
    return e.cast(out.value, kind)


def _mode(n: Node) -> str:
    mode = _MODES.get(n.text("mode", "nearest"))
    if mode is None:
        raise InvalidModelError(f"{n.op}: mode {n.text('mode')!r} is unknown")
    return mode


def _resize(n: Node) -> Value:
    if n.version < 11:
        return _old(n, [float(s) for s in n.constant(1, "the scales").reshape(-1)])
    x = n[0]
    rank = x.type.rank
    axes = [n.count(a, rank) for a in n.integers("axes", list(range(rank)))]
    sizes: list[Dim] = list(x.type.shape)
    scales: list[float] | None = None
    if n.has(3) and n[3].type.elements != 0:
        asked = n.sizes(3, "the output size")
        sizes, scales = _asked_sizes(n, sizes, axes, asked)
    else:
        given = _scales(n, 2)
        if given is None or len(given) != len(axes):
            if n.has(2) and n[2].type.elements != 0:
                return _symbolic_scales(n, axes)
            raise InvalidModelError("Resize needs sizes or scales, one for each axis")
        scales = [1.0] * rank
        for axis, scale in zip(axes, given, strict=True):
            sizes[axis], scales[axis] = scaled_size(n, sizes[axis], scale), scale
    return _modern(n, axes, sizes, scales)


def _symbolic_scales(n: Node, axes: list[int]) -> Value:
    """Scales computed from sizes (size / input): the sizes are exact fractions times the input."""
    ratios = n.knowledge.ratios(n[2])
    if ratios is None:
        sizes, scales = _data_scales(n, 2, axes)
        return _modern(n, axes, sizes, None, scales)
    sizes = list(n[0].type.shape)
    for axis, (num, den) in zip(axes, ratios.reshape(-1), strict=True):
        sizes[axis] = n.e.simplify(floordiv(mul(sizes[axis], num), den))
    return _modern(n, axes, sizes, None)


def _data_scales(n: Node, index: int, axes: list[int]) -> tuple[list[Dim], Value]:
    """Scales that are data: the sizes they give are bound, and the kernel reads them."""
    e, x = n.e, n[0]
    if n.integer("antialias", 0):
        raise Refused("antialiasing by scales that depend on data", "give sizes")
    scales = e.cast(e.reshape(n[index], (len(axes),)), F32)
    have = e.cast(e.dims([x.type.shape[a] for a in axes]), F32)
    asked = e.cast(e.op("floor", e.map("mul", have, scales)), I64)
    made = n.bound([None] * len(axes), asked, "the size that the scales give")
    sizes = list(x.type.shape)
    for axis, size in zip(axes, made, strict=True):
        sizes[axis] = size
    scales = e.cast(scales, F64)
    if axes != list(range(x.type.rank)):
        one = e.broadcast(e.scalar(1.0, F64), (1,))
        order = [axes.index(a) if a in axes else len(axes) for a in range(x.type.rank)]
        at = e.weight(np.array(order, np.int64))
        scales = e.op("gather", e.op("concat", scales, one, axis=0), at, axis=0)
    return sizes, scales


def _modern(
    n: Node, axes: list[int], sizes: list[Dim], scales: list[float] | None,
    given: Value | None = None,
) -> Value:  # fmt: skip
    mode = _mode(n)
    attrs: dict[str, Any] = {}
    if mode == "nearest":
        attrs["nearest"] = n.text("nearest_mode", "round_prefer_floor")
    if mode == "cubic":
        attrs["cubic_coeff"] = n.number("cubic_coeff_a", -0.75)
    coordinate = n.text("coordinate_transformation_mode", "half_pixel")
    if coordinate == "tf_half_pixel_for_nn":
        raise Refused("coordinate mode tf_half_pixel_for_nn", "use half_pixel")
    if coordinate == "tf_crop_and_resize" and given is not None:
        raise Refused("a region of interest with scales that depend on data", "give sizes")
    if coordinate == "tf_crop_and_resize":
        attrs["roi"] = _roi(n, axes)
        attrs["extrapolation"] = n.number("extrapolation_value", 0.0)
    return _of_any_type(
        n, n[0], given, sizes=tuple(sizes), mode=mode, coordinate=coordinate,
        scales=tuple(scales) if scales is not None else None,
        exclude_outside=bool(n.integer("exclude_outside", 0)) or None,
        antialias=bool(n.integer("antialias", 0)) or None, **attrs,
    )  # fmt: skip


def _asked_sizes(
    n: Node, sizes: list[Dim], axes: list[int], asked: list[Dim]
) -> tuple[list[Dim], list[float] | None]:
    """Sizes by keep_aspect_ratio_policy (Resize-18); a kept ratio is the scale as well."""
    if len(asked) != len(axes):
        raise InvalidModelError(f"Resize: {len(asked)} sizes for {len(axes)} axes")
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        for axis, size in zip(axes, asked, strict=True):
            sizes[axis] = size
        return sizes, None
    if any(isinstance(d, Expr) for d in (*asked, *(sizes[a] for a in axes))):
        raise Refused(f"keep_aspect_ratio_policy {policy!r} with symbolic sizes", "give the sizes")
    pick = min if policy == "not_larger" else max
    have = [d for d in (sizes[a] for a in axes) if isinstance(d, int)]
    want = [d for d in asked if isinstance(d, int)]
    scale = pick(s / d for s, d in zip(want, have, strict=True))
    scales = [1.0] * len(sizes)
    for axis, size in zip(axes, have, strict=True):
        sizes[axis] = int(np.floor(scale * size + 0.5))
        scales[axis] = scale
    return sizes, scales


def _roi(n: Node, axes: list[int]) -> tuple[float, ...]:
    rank = n[0].type.rank
    given = [float(r) for r in n.constant(1, "the region of interest").reshape(-1)]
    if len(given) != 2 * len(axes):
        raise InvalidModelError(f"Resize: {len(given)} ends of a region for {len(axes)} axes")
    roi = [0.0] * rank + [1.0] * rank
    for i, axis in enumerate(axes):
        roi[axis], roi[rank + axis] = given[i], given[len(axes) + i]
    return tuple(roi)


TABLE: dict[str, Handler] = {"Upsample": _upsample, "Resize": _resize}
