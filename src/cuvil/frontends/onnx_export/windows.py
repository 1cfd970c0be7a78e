"""Convolutions, pooling and resampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.frontends.onnx_export.contractions import product_type
from cuvil.frontends.onnx_export.maps import Writer
from cuvil.frontends.onnx_export.movement import padded
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.ir.core import Op
from cuvil.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, DType
from cuvil.ops.reduction import lowest
from cuvil.sym.expr import product

_POOLED: Mapping[DType, DType] = {BF16: F32, I16: F64, U16: F64, I32: F64, U32: F64}
_RESIZED: Mapping[DType, DType] = {BF16: F32, F16: F32, I16: I32, U16: I32, BOOL: U8}
EIGHT_BITS = (I8, U8)


def _first(scope: Scope, op: Op, name: str, rank: int) -> str:
    """Channels before the spatial dims, as ONNX has them."""
    if not op.attrs.get("channels_last"):
        return name
    return scope.node("Transpose", name, perm=[0, rank - 1, *range(1, rank - 1)])


def _last(scope: Scope, op: Op, name: str) -> str:
    rank = op.results[0].type.rank
    if not op.attrs.get("channels_last"):
        return name
    return scope.node("Transpose", name, perm=[0, *range(2, rank), 1])


def _column(scope: Scope, bias: str, rank: int) -> str:
    """A vector along the channels."""
    return scope.node("Unsqueeze", bias, scope.ints([0, *range(2, rank)]))


def _cropped(scope: Scope, name: str, dtype: DType, lo: Sequence[int], hi: Sequence[int]) -> str:
    """Negative pads, done before the operator."""
    less = [[min(p, 0) for p in side] for side in (lo, hi)]
    if not any(map(any, less)):
        return name
    return padded(scope, name, dtype, [0, 0, *less[0]], [0, 0, *less[1]], 0)


def _conv(scope: Scope, op: Op) -> list[str]:
    x, w = op.operands[:2]
    a, result = op.attrs, op.type.dtype
    whole = not x.type.dtype.is_float
    dtype = x.type.dtype if whole else product_type(x.type.dtype, result)
    name = _first(scope, op, scope.cast(scope.name(x), x.type.dtype, dtype), x.type.rank)
    name = _cropped(scope, name, dtype, a["pads_lo"], a["pads_hi"])
    weight = scope.cast(scope.name(w), w.type.dtype, w.type.dtype if whole else dtype)
    given = [name, weight]
    bias = scope.name(op.operands[2]) if a["has_bias"] else ""
    if bias and not whole:
        given.append(scope.cast(bias, op.operands[2].type.dtype, dtype))
    made = scope.node("ConvInteger" if whole else "Conv", *given,
                      **_windows(op, a["pads_lo"], a["pads_hi"]))  # fmt: skip
    if whole:
        made = scope.cast(made, I32, result)
        made = scope.node("Add", made, _column(scope, bias, x.type.rank)) if bias else made
        return [_last(scope, op, made)]
    return [_last(scope, op, scope.cast(made, dtype, result))]


def _windows(op: Op, lo: Sequence[int], hi: Sequence[int]) -> dict[str, Any]:
    """Attributes of a convolution; those that say nothing are left out."""
    a = op.attrs
    rank = op.type.rank
    w = op.operands[1].type.shape
    found: dict[str, Any] = {"kernel_shape": [d for d in w[2:] if isinstance(d, int)]}
    pads = [max(p, 0) for p in (*lo, *hi)]
    if any(pads):
        found["pads"] = pads
    for key in ("strides", "dilations"):
        if tuple(a[key]) != (1,) * (rank - 2):
            found[key] = list(a[key])
    if a["groups"] != 1:
        found["group"] = a["groups"]
    return found


def _conv_transpose(scope: Scope, op: Op) -> list[str]:
    x, w = op.operands[:2]
    a, rank = op.attrs, op.type.rank
    dtype = product_type(x.type.dtype, op.type.dtype)
    name = _first(scope, op, scope.cast(scope.name(x), x.type.dtype, dtype), rank)
    given = [name, scope.cast(scope.name(w), w.type.dtype, dtype)]
    bias = ""
    if a["has_bias"]:
        bias = scope.cast(scope.name(op.operands[2]), op.operands[2].type.dtype, dtype)
    lo, hi, more = (list(a[key]) for key in ("pads_lo", "pads_hi", "output_padding"))
    if any(m >= s for m, s in zip(more, a["strides"])):  # more than ONNX's output_padding may be
        hi, more = [p - m for p, m in zip(hi, more)], [0] * len(more)
    grown = [[max(-p, 0) for p in side] for side in (lo, hi)]
    late = any(map(any, grown))
    if bias and not late:
        given.append(bias)
    extra = {"output_padding": more} if any(more) else {}
    made = scope.node("ConvTranspose", *given, **{**_windows(op, lo, hi), **extra})
    if late:
        made = padded(scope, made, dtype, [0, 0, *grown[0]], [0, 0, *grown[1]], 0)
        made = scope.node("Add", made, _column(scope, bias, rank)) if bias else made
    return [_last(scope, op, scope.cast(made, dtype, op.type.dtype))]


def _pool_attributes(op: Op) -> dict[str, Any]:
    a = op.attrs
    ones = (1,) * len(a["kernel"])
    found: dict[str, Any] = {"kernel_shape": list(a["kernel"])}
    for key in ("strides", "dilations"):
        if tuple(a[key]) != ones:
            found[key] = list(a[key])
    if any((*a["pads_lo"], *a["pads_hi"])):
        found["pads"] = [*a["pads_lo"], *a["pads_hi"]]
    if a.get("ceil_mode"):
        found["ceil_mode"] = 1
    return found


def _max_pool(scope: Scope, op: Op) -> list[str]:
    x = op.operands[0].type
    dtype = _POOLED.get(x.dtype, x.dtype)
    name = _first(scope, op, scope.cast(scope.name(op.operands[0]), x.dtype, dtype), x.rank)
    given = _pool_attributes(op)
    pads = given.get("pads", [])
    if any(p >= k for p, k in zip(pads, (*op.attrs["kernel"],) * 2)):
        lo, hi = op.attrs["pads_lo"], op.attrs["pads_hi"]
        least = lowest(dtype.numpy).item()
        name = padded(scope, name, dtype, [0, 0, *lo], [0, 0, *hi], least)
        del given["pads"]
    if op.short == "max_pool":
        made = scope.node("MaxPool", name, **given)
        return [_last(scope, op, scope.cast(made, dtype, x.dtype))]
    spatial = x.shape[1:-1] if op.attrs.get("channels_last") else x.shape[2:]
    place = scope.many("MaxPool", [name], 2, **given)[1]
    return [_last(scope, op, scope.node("Mod", place, scope.dim(product(spatial))))]


def _avg_pool(scope: Scope, op: Op) -> list[str]:
    x = op.operands[0].type
    dtype = F32 if x.dtype in (BF16, F16) else x.dtype
    name = _first(scope, op, scope.cast(scope.name(op.operands[0]), x.dtype, dtype), x.rank)
    given = _pool_attributes(op)
    if op.attrs["count_include_pad"] and "pads" in given:
        given["count_include_pad"] = 1
    made = scope.node("AveragePool", name, **given)
    return [_last(scope, op, scope.cast(made, dtype, x.dtype))]


def _resize(scope: Scope, op: Op) -> list[str]:
    x, a = op.operands[0].type, op.attrs
    dtype = _RESIZED.get(x.dtype, x.dtype)
    name = scope.cast(scope.name(op.operands[0]), x.dtype, dtype)
    roi, scales, sizes = "", "", ""
    if a.get("roi"):
        roi = scope.constant(np.asarray(a["roi"], np.float32), "roi")
    if len(op.operands) > 1:
        scales = scope.cast(scope.name(op.operands[1]), F64, F32)
    elif a.get("scales"):
        scales = scope.constant(np.asarray(a["scales"], np.float32), "scales")
    else:
        sizes = scope.shape(a["sizes"])
    given: dict[str, Any] = {"mode": a["mode"], "coordinate_transformation_mode": a["coordinate"]}
    if a["mode"] == "nearest":
        given["nearest_mode"] = a["nearest"]
    if a["mode"] == "cubic":
        given["cubic_coeff_a"] = a.get("cubic_coeff", -0.75)
    for key, flag in (("exclude_outside", "exclude_outside"), ("antialias", "antialias")):
        if a.get(flag):
            given[key] = 1
    if a.get("extrapolation"):
        given["extrapolation_value"] = a["extrapolation"]
    made = scope.node("Resize", name, roi, scales, sizes, **given)
    return [scope.cast(made, dtype, x.dtype)]


def _roi_align(scope: Scope, op: Op) -> list[str]:
    x, rois, batch = op.operands
    a, source = op.attrs, x.type.dtype
    dtype = F32 if source in (BF16, F16) else source
    names = [scope.cast(scope.name(v), source, dtype) for v in (x, rois)]
    made = scope.node(
        "RoiAlign", *names, scope.cast(scope.name(batch), batch.type.dtype, I64),
        coordinate_transformation_mode="half_pixel" if a["half_pixel"] else "output_half_pixel",
        mode=a["mode"], output_height=a["height"], output_width=a["width"],
        sampling_ratio=a["sampling_ratio"], spatial_scale=a["scale"],
    )  # fmt: skip
    return [scope.cast(made, dtype, source)]


def _roi_max_pool(scope: Scope, op: Op) -> list[str]:
    source, a = op.type.dtype, op.attrs
    dtype = F32 if source in (BF16, F16) else source
    names = [scope.cast(scope.name(v), source, dtype) for v in op.operands]
    made = scope.node("MaxRoiPool", *names, pooled_shape=[a["height"], a["width"]],
                      spatial_scale=a["scale"])  # fmt: skip
    return [scope.cast(made, dtype, source)]


WRITERS: Mapping[str, Writer] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _max_pool,
    "max_pool_indices": _max_pool,
    "avg_pool": _avg_pool,
    "resize": _resize,
    "roi_align": _roi_align,
    "roi_max_pool": _roi_max_pool,
}
