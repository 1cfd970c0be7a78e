"""Reductions: one element from all elements along some axes.

Float sums, means and products are accumulated in f32 at least (the reference in f64); integer
ones wrap in their own dtype. NaN propagates through every float reduction, and wins argmax and
argmin. The greatest of no elements is the least value of its dtype, and the other way round. Axes
may be negative; no axes reduces nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import I64, Shape, TensorType
from cuvil.ops.base import Array, Attrs, Cost, Infer, OpDef, Reference, ShapeContext, normalize_axis
from cuvil.ops.numeric import axes_of, comparable, narrow_to, need_number, wide


def _cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    """One operation an input element."""
    return Cost(operands[0].elements)


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape after reducing the (normalised) axes."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _infer(name: str, kinds: str) -> Infer:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        x = types[0]
        if x.dtype.kind not in kinds:
            raise InvalidModelError(f"{name} is not defined for {x.dtype}")
        axes = axes_of(attrs["axes"], x.rank, name)
        return [x.with_shape(reduced_shape(x.shape, axes, attrs["keepdims"]))]

    return infer


def _sum(x: Array, axis: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(np.sum(x, axis=axis, keepdims=keep, dtype=x.dtype))


def _mean(x: Array, axis: tuple[int, ...], keep: bool) -> Array:
    count = np.float64(np.prod([x.shape[a] for a in axis], dtype=np.int64))
    return _sum(x, axis, keep) / count


def _prod(x: Array, axis: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(np.prod(x, axis=axis, keepdims=keep, dtype=x.dtype))


def lowest(dtype: np.dtype[Any]) -> Array:
    """The identity of max, rank 0: -inf, False or the smallest integer."""
    if dtype.kind in "fb":
        return np.array(-np.inf if dtype.kind == "f" else False, dtype)
    return np.array(np.iinfo(dtype).min, dtype)


def highest(dtype: np.dtype[Any]) -> Array:
    """The identity of min, rank 0: inf, True or the greatest integer."""
    if dtype.kind in "fb":
        return np.array(np.inf if dtype.kind == "f" else True, dtype)
    return np.array(np.iinfo(dtype).max, dtype)


def _max(x: Array, axis: tuple[int, ...], keep: bool) -> Array:
    least: Any = lowest(x.dtype)
    return np.asarray(np.max(x, axis=axis, keepdims=keep, initial=least[()]))


def _min(x: Array, axis: tuple[int, ...], keep: bool) -> Array:
    most: Any = highest(x.dtype)
    return np.asarray(np.min(x, axis=axis, keepdims=keep, initial=most[()]))


def _any(x: Array, axis: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(np.any(x, axis=axis, keepdims=keep))


def _all(x: Array, axis: tuple[int, ...], keep: bool) -> Array:
    return np.asarray(np.all(x, axis=axis, keepdims=keep))


def _reference(function: Callable[[Array, tuple[int, ...], bool], Array], name: str) -> Reference:
    def run(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
        x = wide(np.asarray(arrays[0]))
        axes = axes_of(attrs["axes"], x.ndim, name)
        with np.errstate(all="ignore"):
            return [narrow_to(function(x, axes, attrs["keepdims"]), results[0])]

    return run


def _arg_infer(name: str) -> Infer:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        x = types[0]
        need_number(x, name)
        axes = axes_of([attrs["axis"]], x.rank, name)
        for a in axes:
            ctx.require(x.shape[a], ">=", 1, f"{name}: an element along dimension {a}")
        return [TensorType(reduced_shape(x.shape, axes, attrs["keepdims"]), I64)]

    return infer


def _arg_reference(largest: bool) -> Reference:
    def run(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
        x = comparable(np.asarray(arrays[0]))
        keep = attrs["keepdims"] and x.ndim > 0
        x = x if x.ndim else x.reshape(1)
        axis = normalize_axis(attrs["axis"], x.ndim, "argmax")
        pick = np.argmax if largest else np.argmin
        if not attrs.get("last", False):
            return [np.asarray(pick(x, axis=axis, keepdims=keep), np.int64)]
        flipped = pick(np.flip(x, axis), axis=axis, keepdims=keep)
        return [np.asarray(x.shape[axis] - 1 - flipped, np.int64)]

    return run


# name: (function over a wide array, kinds allowed, tolerance)
_REDUCTIONS: Mapping[str, tuple[Callable[..., Array], str, str]] = {
    "reduce_sum": (_sum, "fiu", "accumulated"),
    "reduce_mean": (_mean, "f", "accumulated"),
    "reduce_prod": (_prod, "fiu", "accumulated"),
    "reduce_max": (_max, "fiub", "exact"),
    "reduce_min": (_min, "fiub", "exact"),
    "reduce_any": (_any, "b", "exact"),
    "reduce_all": (_all, "b", "exact"),
}


DEFS: list[OpDef] = [
    *(
        OpDef(
            f"cuvil.{name}",
            "reduce",
            _infer(name, kinds),
            _reference(function, name),
            (1, 1),
            {"axes": "ints", "keepdims": "bool"},
            tolerance,
            _cost,
        )
        for name, (function, kinds, tolerance) in _REDUCTIONS.items()
    ),
    *(
        OpDef(
            f"cuvil.{name}",
            "reduce",
            _arg_infer(name),
            _arg_reference(largest),
            (1, 1),
            {"axis": "int", "keepdims": "bool", "last": "bool?"},
            cost=_cost,
            doc="i64 position; ties give the first (the last if asked); NaN wins.",
        )
        for name, largest in (("argmax", True), ("argmin", False))
    ),
]
