"""Sliding windows, as convolution and pooling both need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import Shape
from cuvil.ops.base import Array, Attrs, ShapeContext
from cuvil.sym.expr import Dim, add, floordiv, minimum, mul

D = TypeVar("D", int, Dim)

WINDOW_ATTRS = {"strides": "ints", "pads_lo": "ints", "pads_hi": "ints", "dilations": "ints"}


def check_windows(attrs: Attrs, keys: Sequence[str], spatial: int, name: str) -> None:
    """Raises InvalidModelError unless each list has one entry a spatial dimension, each sane."""
    if not 1 <= spatial <= 3:
        raise InvalidModelError(f"{name} is defined for 1 to 3 spatial dimensions, not {spatial}")
    for key in keys:
        values = tuple(attrs[key])
        if len(values) != spatial:
            raise InvalidModelError(f"{name}: {key}={values} needs {spatial} entries")
        if key in ("strides", "dilations", "kernel") and min(values) < 1:
            raise InvalidModelError(f"{name}: {key}={values} must be positive")


def spatial_dims(shape: tuple[D, ...], channels_last: bool) -> tuple[D, ...]:
    """The spatial part of [N, C, *spatial] or [N, *spatial, C]."""
    return shape[1:-1] if channels_last else shape[2:]


def join_dims(n: Dim, c: Dim, spatial: Sequence[Dim], channels_last: bool) -> Shape:
    """The inverse of taking a shape apart."""
    return (n, *spatial, c) if channels_last else (n, c, *spatial)


def window_count(
    ctx: ShapeContext, size: Dim, kernel: int, attrs: Attrs, axis: int, name: str
) -> Dim:
    """How many windows fit: floor or ceil((size + lo + hi - d * (k - 1) - 1) / stride) + 1.

    With ``ceil_mode`` the last window must start inside the input or the low padding, as
    torch.nn.MaxPool2d documents it. Requires that at least one window fits.
    """
    lo, hi = attrs["pads_lo"][axis], attrs["pads_hi"][axis]
    stride = attrs["strides"][axis]
    span = add(size, lo + hi - attrs["dilations"][axis] * (kernel - 1) - 1)
    ctx.require(span, ">=", 0, f"{name}: the kernel fits spatial dimension {axis} with its padding")
    if not attrs.get("ceil_mode", False):
        return ctx.facts.simplify(add(floordiv(span, stride), 1))
    rounded_up = add(floordiv(add(span, stride - 1), stride), 1)
    last_start = add(floordiv(add(size, lo - 1), stride), 1)
    return ctx.facts.simplify(minimum(rounded_up, last_start))


def transposed_size(size: Dim, kernel: int, attrs: Attrs, axis: int) -> Dim:
    """The size of a transposed convolution's output:
    (size - 1) * stride - lo - hi + dilation * (kernel - 1) + output_padding + 1."""
    reach = attrs["dilations"][axis] * (kernel - 1) + attrs["output_padding"][axis] + 1
    reach -= attrs["pads_lo"][axis] + attrs["pads_hi"][axis]
    return add(mul(add(size, -1), attrs["strides"][axis]), reach)


def padded(x: Array, lo: Sequence[int], hi: Sequence[int], fill: float) -> Array:
    """The trailing dimensions padded with ``fill``; negative pads crop."""
    lead = x.ndim - len(lo)
    keep = [slice(None)] * lead
    for size, low, high in zip(x.shape[lead:], lo, hi, strict=True):
        keep.append(slice(max(-low, 0), max(size - max(-high, 0), max(-low, 0))))
    pads = [(0, 0)] * lead + [(max(a, 0), max(b, 0)) for a, b in zip(lo, hi, strict=True)]
    return np.pad(x[tuple(keep)], pads, constant_values=fill)


def tap_slices(
    tap: Sequence[int], dilations: Sequence[int], strides: Sequence[int], counts: Sequence[int]
) -> tuple[Any, ...]:
    """For one place in the kernel: the index of the (padded) input elements that all windows
    see there, along the trailing dimensions."""
    return (...,) + tuple(
        slice(t * d, t * d + (n - 1) * s + 1, s) if n > 0 else slice(0, 0)
        for t, d, s, n in zip(tap, dilations, strides, counts, strict=True)
    )
