"""Running products, extremes and log-sums along an axis (the running sum is in structure.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import I64, TensorType
from cuvil.ops.base import Array, Attrs, Infer, OpDef, Reference, ShapeContext, normalize_axis
from cuvil.ops.numeric import comparable, narrow_to, wide


def _infer(name: str, kinds: str, positions: bool) -> Infer:
    def infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
        if types[0].dtype.kind not in kinds:
            raise InvalidModelError(f"{name} is not defined for {types[0].dtype}")
        normalize_axis(attrs["axis"], types[0].rank, name)
        return [types[0], types[0].with_dtype(I64)] if positions else [types[0]]

    return infer


def _lines(array: Array, axis: int) -> Array:
    """The axis first, at least one dimension."""
    return np.moveaxis(np.atleast_1d(array), axis, 0)


def _back(lines: Array, axis: int, shape: tuple[int, ...]) -> Array:
    return np.moveaxis(lines, 0, axis).reshape(shape)


def _cumprod(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
    axis, shape = attrs["axis"], np.shape(arrays[0])
    x = _lines(wide(np.asarray(arrays[0])), axis)
    x = x[::-1] if attrs.get("reverse", False) else x
    with np.errstate(all="ignore"):
        out = np.cumprod(x, axis=0, dtype=x.dtype)
    if attrs.get("exclusive", False):
        out = np.concatenate([np.ones_like(out[:1]), out[:-1]])
    out = out[::-1] if attrs.get("reverse", False) else out
    return [narrow_to(_back(out, axis, shape), results[0])]


def _extreme(better: Callable[[Array, Array], Array]) -> Reference:
    """The best element so far and its place: the last of equal ones; from a NaN on, the last NaN
    (ATen's cummax_helper_cpu)."""

    def run(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
        axis, original = attrs["axis"], np.asarray(arrays[0])
        x = _lines(comparable(original), axis)
        places = np.zeros(x.shape, np.int64)
        for i in range(1, x.shape[0]):
            best = np.take_along_axis(x, places[i - 1 : i], axis=0)[0]
            with np.errstate(invalid="ignore"):
                taken = (x[i] != x[i]) | ((best == best) & better(x[i], best))
            places[i] = np.where(taken, i, places[i - 1])
        values = np.take_along_axis(_lines(original, axis), places, axis=0)
        return [_back(a, axis, original.shape) for a in (values, places)]

    return run


def _logcumsumexp(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x = _lines(wide(np.asarray(arrays[0])), attrs["axis"])
    with np.errstate(all="ignore"):
        out = np.logaddexp.accumulate(x, axis=0)
    return [narrow_to(_back(out, attrs["axis"], np.shape(arrays[0])), results[0])]


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.cumprod", "kernel", _infer("cumprod", "fiu", False), _cumprod, (1, 1),
        {"axis": "int", "exclusive": "bool?", "reverse": "bool?"}, "accumulated",
        doc="Running product; exclusive leaves the element itself out; reverse runs from the end.",
    ),
    OpDef(
        "cuvil.cummax", "kernel", _infer("cummax", "fiub", True), _extreme(np.greater_equal),
        (1, 1), {"axis": "int"},
        doc="Greatest so far and its i64 position, the last of equal ones; NaN is kept.",
    ),
    OpDef(
        "cuvil.cummin", "kernel", _infer("cummin", "fiub", True), _extreme(np.less_equal),
        (1, 1), {"axis": "int"},
        doc="Least so far and its i64 position, the last of equal ones; NaN is kept.",
    ),
    OpDef(
        "cuvil.logcumsumexp", "kernel", _infer("logcumsumexp", "f", False), _logcumsumexp,
        (1, 1), {"axis": "int"}, "accumulated",
        doc="log(exp(x[0]) + ... + exp(x[i])), without overflow.",
    ),
]  # fmt: skip
