"""Convolution and transposed convolution in one, two or three spatial dimensions.

Weights are always [O, C / groups, *kernel] (transposed: [C, O / groups, *kernel]), whatever the
layout of the activations. Kernels are not flipped (a cross-correlation, as all frameworks have it).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import DType, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext
from cuvil.ops.contraction import multiply_operands, product_dtype, product_result
from cuvil.ops.numeric import concrete, need_operands
from cuvil.ops.windows import (
    WINDOW_ATTRS,
    check_windows,
    join_dims,
    padded,
    spatial_dims,
    tap_slices,
    transposed_size,
    window_count,
)
from cuvil.sym.expr import Dim, mul, product

_COLUMNS = 1 << 23  # elements of the patch matrix the reference makes at a time


def _check(types: Sequence[TensorType], attrs: Attrs, name: str) -> tuple[Dim, tuple[int, ...]]:
    """(input channels, kernel size) of a well-formed convolution."""
    need_operands(types, 2 + attrs["has_bias"], name)
    x, w = types[:2]
    if x.rank != w.rank:
        raise InvalidModelError(f"{name}: input {x} and weight {w} differ in rank")
    check_windows(attrs, tuple(WINDOW_ATTRS), x.rank - 2, name)
    kernel = tuple(k for k in w.shape[2:] if isinstance(k, int) and k > 0)
    if len(kernel) != x.rank - 2:
        raise InvalidModelError(f"{name} needs a kernel of known size, got weight {w}")
    groups = attrs["groups"]
    if groups < 1 or (isinstance(w.shape[0], int) and w.shape[0] % groups):
        raise InvalidModelError(f"{name}: {w.shape[0]} channels can't form {groups} groups")
    return x.shape[-1 if attrs.get("channels_last", False) else 1], kernel


def _check_bias(
    ctx: ShapeContext, types: Sequence[TensorType], channels: Dim, dtype: DType, name: str
) -> None:
    if len(types) < 3:
        return
    bias = types[2]
    if bias.rank != 1 or bias.dtype != dtype:
        raise InvalidModelError(f"{name}: the bias must be a vector of {dtype}, got {bias}")
    ctx.same(bias.shape[0], channels, f"{name}: size of the bias")


def _conv_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    last = attrs.get("channels_last", False)
    channels, kernel = _check(types, attrs, "conv")
    dtype = product_dtype(types, attrs, "conv")
    w = types[1]
    ctx.same(channels, mul(w.shape[1], attrs["groups"]), "conv: input channels")
    _check_bias(ctx, types, w.shape[0], dtype, "conv")
    sizes = spatial_dims(types[0].shape, last)
    spatial = [
        window_count(ctx, d, k, attrs, i, "conv")
        for i, (d, k) in enumerate(zip(sizes, kernel, strict=True))
    ]
    return [TensorType(join_dims(types[0].shape[0], w.shape[0], spatial, last), dtype)]


def _with_bias(out: Array, bias: Array | None, result: TensorType, last: bool) -> Array:
    """Bias added to [N, O, *spatial] in the accumulator's dtype, then the layout asked for."""
    if bias is not None:
        out = out + bias.astype(out.dtype).reshape((-1,) + (1,) * (out.ndim - 2))
    return product_result(np.moveaxis(out, 1, -1) if last else out, result)


def _conv_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    last = attrs.get("channels_last", False)
    x, w = multiply_operands(arrays[0], arrays[1], results[0].dtype)
    x = np.moveaxis(x, -1, 1) if last else x
    counts = spatial_dims(concrete(results[0]), last)
    with np.errstate(all="ignore"):
        x = padded(x, attrs["pads_lo"], attrs["pads_hi"], attrs.get("pad_value", 0))
        out = _correlate(x, w, counts, attrs)
        bias = np.asarray(arrays[2]) if attrs["has_bias"] else None
        return [_with_bias(out, bias, results[0], last)]


def _correlate(x: Array, w: Array, counts: Sequence[int], attrs: Attrs) -> Array:
    """[N, C, *padded], [O, C / groups, *kernel] -> [N, O, *counts], by patch matrices."""
    groups, kernel = attrs["groups"], w.shape[2:]
    n, places = x.shape[0], int(np.prod(counts, dtype=np.int64))
    depth = x.shape[1] // groups
    split = x.reshape((n, groups, depth, *x.shape[2:]))
    filters = w.reshape((groups, w.shape[0] // groups, depth, -1))
    total = np.zeros((n, groups, filters.shape[1], places), x.dtype)
    taps = list(np.ndindex(*kernel))
    if depth == 1:
        return _depthwise(split[:, :, 0], filters[:, :, 0], taps, counts, attrs)
    step = max(1, _COLUMNS // max(1, n * groups * depth * places))
    for start in range(0, len(taps), step):
        chunk = taps[start : start + step]
        patches = [
            split[tap_slices(t, attrs["dilations"], attrs["strides"], counts)] for t in chunk
        ]
        columns = np.stack([p.reshape((n, groups, depth, places)) for p in patches], axis=3)
        columns = columns.reshape((n, groups, depth * len(chunk), places))
        part = filters[..., start : start + len(chunk)].reshape(
            (groups, filters.shape[1], depth * len(chunk))
        )
        total += np.matmul(part, columns)
    return total.reshape((n, w.shape[0], *counts))


def _depthwise(
    x: Array, filters: Array, taps: Sequence[tuple[int, ...]], counts: Sequence[int], attrs: Attrs
) -> Array:
    """[N, G, *padded], [G, O / G, taps] -> [N, O, *counts], without a matrix of patches."""
    groups, each = filters.shape[:2]
    total = np.zeros((x.shape[0], groups, each, *counts), x.dtype)
    column = (groups, each) + (1,) * len(counts)
    for i, tap in enumerate(taps):
        patch = x[tap_slices(tap, attrs["dilations"], attrs["strides"], counts)]
        total += filters[:, :, i].reshape(column) * patch[:, :, None]
    return total.reshape((x.shape[0], groups * each, *counts))


def _conv_cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    return Cost(mul(mul(results[0].elements, product(operands[1].shape[1:])), 2))


def _transposed_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    last = attrs.get("channels_last", False)
    channels, kernel = _check(types, attrs, "conv_transpose")
    check_windows(attrs, ("output_padding",), types[0].rank - 2, "conv_transpose")
    dtype = product_dtype(types, attrs, "conv_transpose")
    ctx.same(channels, types[1].shape[0], "conv_transpose: input channels")
    outputs = mul(types[1].shape[1], attrs["groups"])
    _check_bias(ctx, types, outputs, dtype, "conv_transpose")
    spatial: list[Dim] = []
    for i, (d, k) in enumerate(zip(spatial_dims(types[0].shape, last), kernel, strict=True)):
        ctx.require(d, ">=", 1, f"conv_transpose: spatial dimension {i}")
        size = transposed_size(d, k, attrs, i)
        ctx.require(size, ">=", 0, f"conv_transpose: spatial dimension {i} of the output")
        spatial.append(size)
    return [TensorType(join_dims(types[0].shape[0], outputs, spatial, last), dtype)]


def _transposed_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """Each input element adds its multiple of the kernel; then the pads are cut off."""
    last = attrs.get("channels_last", False)
    x, w = multiply_operands(arrays[0], arrays[1], results[0].dtype)
    x = np.moveaxis(x, -1, 1) if last else x
    groups, kernel, sizes = attrs["groups"], w.shape[2:], x.shape[2:]
    n, depth, places = x.shape[0], x.shape[1] // groups, int(np.prod(sizes, dtype=np.int64))
    columns = x.reshape((n, groups, depth, places))
    filters = w.reshape((groups, depth, *w.shape[1:]))
    full = [
        (d - 1) * s + dil * (k - 1) + 1 + extra
        for d, k, s, dil, extra in zip(
            sizes, kernel, attrs["strides"], attrs["dilations"], attrs["output_padding"],
            strict=True,
        )
    ]  # fmt: skip
    total = np.zeros((n, groups, w.shape[1], *full), x.dtype)
    with np.errstate(all="ignore"):
        for tap in np.ndindex(*kernel):
            part = np.matmul(filters[(..., *tap)].swapaxes(-1, -2), columns)
            where = tap_slices(tap, attrs["dilations"], attrs["strides"], sizes)
            total[where] += part.reshape((n, groups, w.shape[1], *sizes))
        out = total.reshape((n, groups * w.shape[1], *full))
        out = padded(out, [-p for p in attrs["pads_lo"]], [-p for p in attrs["pads_hi"]], 0)
        bias = np.asarray(arrays[2]) if attrs["has_bias"] else None
        return [_with_bias(out, bias, results[0], last)]


def _transposed_cost(
    operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs
) -> Cost:
    return Cost(mul(mul(operands[0].elements, product(operands[1].shape[1:])), 2))


_ATTRS = {**WINDOW_ATTRS, "groups": "int", "has_bias": "bool", "channels_last": "bool?"}

DEFS: list[OpDef] = [
    OpDef(
        "cuvil.conv",
        "contraction",
        _conv_infer,
        _conv_reference,
        (2, 3),
        {**_ATTRS, "out": "dtype?", "algorithm": "str?", "pad_value": "int?"},
        "accumulated",
        _conv_cost,
        doc="x, w [O, C / groups, *k], bias: padding with pad_value (0), negative pads crop; "
        "algorithm is how its kernel computes, and no part of its meaning.",
    ),
    OpDef(
        "cuvil.conv_transpose",
        "contraction",
        _transposed_infer,
        _transposed_reference,
        (2, 3),
        {**_ATTRS, "output_padding": "ints", "out": "dtype?"},
        "accumulated",
        _transposed_cost,
        doc="x, w [C, O / groups, *k], bias: the gradient of conv, plus output_padding at the end.",
    ),
]
