"""Normalisations: composites that a kernel may match whole, and a pass takes apart otherwise.

All are computed in f32 at least (the references in f64). ``weight`` and ``bias`` come after x in
this order, where the flags say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import TensorType
from cuvil.ops.base import (
    Array,
    Attrs,
    Cost,
    CostRule,
    Infer,
    OpDef,
    ShapeContext,
    normalize_axis,
    same_dtype,
)
from cuvil.ops.numeric import narrow_to, need_float, need_operands, wide
from cuvil.sym.expr import Dim, mul


def _cost(a_element: int) -> CostRule:
    def rule(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
        return Cost(mul(operands[0].elements, a_element))

    return rule


def _flags(attrs: Attrs) -> int:
    return int(attrs.get("has_weight", False)) + int(attrs.get("has_bias", False))


def _affine(y: Array, arrays: Sequence[Array], attrs: Attrs, shape: Sequence[int]) -> Array:
    """y * weight + bias, each reshaped to ``shape``, as far as they are there."""
    rest = [wide(np.asarray(a)).reshape(shape) for a in arrays[1:]]
    if attrs.get("has_weight", False):
        y = y * rest.pop(0)
    return y + rest.pop(0) if attrs.get("has_bias", False) else y


def _centred(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """(x - mean) / sqrt(biased variance + eps) over some axes."""
    count = max(1, int(np.prod([x.shape[a] for a in axes], dtype=np.int64)))
    mean = x.sum(axis=axes, keepdims=True) / count
    away = x - mean
    variance = (away * away).sum(axis=axes, keepdims=True) / count
    return np.asarray(away / np.sqrt(variance + eps))


def _along_axis(name: str) -> Infer:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        need_float(types[0], name)
        normalize_axis(attrs["axis"], types[0].rank, name)
        return [types[0]]

    return infer


def _shifted(x: Array, axis: int) -> Array:
    return np.asarray(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))


def _softmax_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x, axis = np.atleast_1d(wide(np.asarray(arrays[0]))), attrs["axis"]
    with np.errstate(all="ignore"):
        powers = np.exp(_shifted(x, axis))
        out = powers / powers.sum(axis=axis, keepdims=True)
    return [narrow_to(out.reshape(np.shape(arrays[0])), results[0])]


def _log_softmax_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x, axis = np.atleast_1d(wide(np.asarray(arrays[0]))), attrs["axis"]
    with np.errstate(all="ignore"):
        away = _shifted(x, axis)
        out = away - np.log(np.exp(away).sum(axis=axis, keepdims=True))
    return [narrow_to(out.reshape(np.shape(arrays[0])), results[0])]


def _from_axis(name: str) -> Infer:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        x = types[0]
        need_float(x, name)
        need_operands(types, 1 + _flags(attrs), name)
        same_dtype(types, name)
        tail = x.shape[normalize_axis(attrs["axes_from"], x.rank, name) :]
        for t in types[1:]:
            if t.rank != len(tail):
                raise InvalidModelError(f"{name}: {t} does not fit the normalised part of {x}")
            for i, (a, b) in enumerate(zip(t.shape, tail, strict=True)):
                ctx.same(a, b, f"{name}: dimension {i} of the weight or bias")
        return [x]

    return infer


def _tail_axes(x: Array, attrs: Attrs, name: str) -> tuple[int, ...]:
    return tuple(range(normalize_axis(attrs["axes_from"], x.ndim, name), x.ndim))


def _layer_norm_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """Ba, Kiros and Hinton 2016."""
    x = wide(np.asarray(arrays[0]))
    axes = _tail_axes(x, attrs, "layer_norm")
    with np.errstate(all="ignore"):
        y = _centred(x, axes, attrs["eps"])
        return [narrow_to(_affine(y, arrays, attrs, [x.shape[a] for a in axes]), results[0])]


def _rms_norm_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """x / sqrt(mean(x**2) + eps) * weight (Zhang and Sennrich 2019)."""
    x = wide(np.asarray(arrays[0]))
    axes = _tail_axes(x, attrs, "rms_norm")
    count = max(1, int(np.prod([x.shape[a] for a in axes], dtype=np.int64)))
    with np.errstate(all="ignore"):
        y = x / np.sqrt((x * x).sum(axis=axes, keepdims=True) / count + attrs["eps"])
        return [narrow_to(_affine(y, arrays, attrs, [x.shape[a] for a in axes]), results[0])]


def _per_channel(name: str, operands: int | None) -> Infer:
    """x [N, C, ...] and vectors of size C; ``operands`` None: as the flags say."""

    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        x = types[0]
        need_float(x, name)
        need_operands(types, operands or 1 + _flags(attrs), name)
        same_dtype(types, name)
        if x.rank < 2:
            raise InvalidModelError(f"{name} needs a channel dimension at 1, got {x}")
        for t in types[1:]:
            if t.rank != 1:
                raise InvalidModelError(f"{name} needs vectors of one value a channel, got {t}")
            ctx.same(t.shape[0], x.shape[1], f"{name}: channels")
        _check_groups(attrs.get("groups"), x.shape[1])
        return [x]

    return infer


def _check_groups(groups: int | None, channels: Dim) -> None:
    if groups is None:
        return
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise InvalidModelError(f"group_norm: {channels} channels can't form {groups} groups")


def _channel_shape(x: Array) -> list[int]:
    return [x.shape[1]] + [1] * (x.ndim - 2)


def _batch_norm_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """(x - mean) / sqrt(var + eps) * weight + bias, with given statistics."""
    x, *rest = (wide(np.asarray(a)) for a in arrays)
    weight, bias, mean, var = (a.reshape(_channel_shape(x)) for a in rest)
    with np.errstate(all="ignore"):
        return [narrow_to((x - mean) / np.sqrt(var + attrs["eps"]) * weight + bias, results[0])]


def _group_norm_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """Wu and He 2018."""
    x = wide(np.asarray(arrays[0]))
    groups = attrs["groups"]
    split = x.reshape((x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    with np.errstate(all="ignore"):
        y = _centred(split, tuple(range(2, split.ndim)), attrs["eps"]).reshape(x.shape)
        return [narrow_to(_affine(y, arrays, attrs, _channel_shape(x)), results[0])]


def _instance_norm_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x = wide(np.asarray(arrays[0]))
    with np.errstate(all="ignore"):
        y = _centred(x, tuple(range(2, x.ndim)), attrs["eps"])
        return [narrow_to(_affine(y, arrays, attrs, _channel_shape(x)), results[0])]


def _lrn_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """x / (bias + alpha / size * sum of squares over ``size`` channels around) ** beta, from
    channel c - floor((size - 1) / 2) to c + ceil((size - 1) / 2) (ONNX LRN)."""
    x = wide(np.asarray(arrays[0]))
    size, channels = attrs["size"], x.shape[1]
    before, after = (size - 1) // 2, math.ceil((size - 1) / 2)
    with np.errstate(all="ignore"):
        squares = np.zeros_like(x)
        for c in range(channels):
            near = x[:, max(0, c - before) : c + after + 1]
            squares[:, c] = (near * near).sum(axis=1)
        scale = (attrs["bias"] + attrs["alpha"] / size * squares) ** attrs["beta"]
        return [narrow_to(x / scale, results[0])]


def _lp_norm_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    if attrs["p"] not in (1, 2):
        raise InvalidModelError(f"lp_norm is defined for p of 1 and 2, not {attrs['p']}")
    return _along_axis("lp_norm")(ctx, types, attrs)


def _lp_norm_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """x / (sum |x|**p) ** (1 / p); zeros where that norm is 0 (ONNX LpNormalization)."""
    x, axis = np.atleast_1d(wide(np.asarray(arrays[0]))), attrs["axis"]
    with np.errstate(all="ignore"):
        sizes = np.abs(x) if attrs["p"] == 1 else x * x
        norm = sizes.sum(axis=axis, keepdims=True) ** (1 / attrs["p"])
        out = np.where(norm == 0, 0, x / norm)
    return [narrow_to(out.reshape(np.shape(arrays[0])), results[0])]


_AFFINE = {"eps": "float", "has_weight": "bool", "has_bias": "bool"}

DEFS: list[OpDef] = [
    OpDef(
        "cuvil.softmax", "reduce", _along_axis("softmax"), _softmax_reference, (1, 1),
        {"axis": "int"}, "accumulated", _cost(5),
        doc="exp(x - max) / sum; a row of -inf only, or with +inf, gives NaN.",
    ),
    OpDef(
        "cuvil.log_softmax", "reduce", _along_axis("log_softmax"), _log_softmax_reference, (1, 1),
        {"axis": "int"}, "accumulated", _cost(5),
    ),
    OpDef(
        "cuvil.layer_norm", "reduce", _from_axis("layer_norm"), _layer_norm_reference, (1, 3),
        {"axes_from": "int", **_AFFINE}, "accumulated", _cost(8),
        doc="x, weight, bias; normalised over dimensions axes_from to the last.",
    ),
    OpDef(
        "cuvil.rms_norm", "reduce", _from_axis("rms_norm"), _rms_norm_reference, (1, 2),
        {"axes_from": "int", "eps": "float", "has_weight": "bool"}, "accumulated", _cost(4),
    ),
    OpDef(
        "cuvil.batch_norm", "reduce", _per_channel("batch_norm", 5), _batch_norm_reference, (5, 5),
        {"eps": "float"}, "accumulated", _cost(2),
        doc="x [N, C, ...], weight, bias, mean, variance (inference: the statistics are given).",
    ),
    OpDef(
        "cuvil.group_norm", "reduce", _per_channel("group_norm", None), _group_norm_reference,
        (1, 3), {"groups": "int", **_AFFINE}, "accumulated", _cost(8),
    ),
    OpDef(
        "cuvil.instance_norm", "reduce", _per_channel("instance_norm", None),
        _instance_norm_reference, (1, 3), _AFFINE, "accumulated", _cost(8),
    ),
    OpDef(
        "cuvil.lrn", "reduce", _per_channel("lrn", 1), _lrn_reference, (1, 1),
        {"size": "int", "alpha": "float", "beta": "float", "bias": "float"},
        "accumulated", _cost(12),
    ),
    OpDef(
        "cuvil.lp_norm", "reduce", _lp_norm_infer, _lp_norm_reference, (1, 1),
        {"axis": "int", "p": "int"}, "accumulated", _cost(3),
    ),
]  # fmt: skip
