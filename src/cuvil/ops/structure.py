"""Operators whose work depends on order or on indices: cumsum, scatter, topk.

A negative index counts from the end; one outside raises IndexError in the references.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import I64, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext, normalize_axis, same_dtype
from cuvil.ops.movement import symbolic_depth
from cuvil.ops.numeric import comparable, concrete, narrow_to, need_number, wide
from cuvil.sym.expr import evaluate, mul

REDUCTIONS = ("none", "add", "mul", "max", "min")


def _cumsum_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    if types[0].dtype.kind not in "fiu":
        raise InvalidModelError(f"cumsum is not defined for {types[0].dtype}")
    normalize_axis(attrs["axis"], types[0].rank, "cumsum")
    return [types[0]]


def _cumsum_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x = np.atleast_1d(wide(np.asarray(arrays[0])))
    axis = normalize_axis(attrs["axis"], x.ndim, "cumsum")
    x = np.flip(x, axis) if attrs.get("reverse", False) else x
    with np.errstate(all="ignore"):
        out = np.cumsum(x, axis=axis, dtype=x.dtype)
        if attrs.get("exclusive", False):
            first = np.zeros_like(out[(slice(None),) * axis + (slice(0, 1),)])
            rest = out[(slice(None),) * axis + (slice(0, -1),)]
            out = np.concatenate([first, rest], axis=axis)
    out = np.flip(out, axis) if attrs.get("reverse", False) else out
    return [narrow_to(out.reshape(np.shape(arrays[0])), results[0])]


def _check_scatter(types: Sequence[TensorType], attrs: Attrs, name: str) -> None:
    data, index, updates = types
    same_dtype((data, updates), name)
    if not index.dtype.is_integer:
        raise InvalidModelError(f"{name} needs integer indices, got {index.dtype}")
    reduction = attrs.get("reduction", "none")
    if reduction not in REDUCTIONS:
        raise InvalidModelError(f"{name}: reduction {reduction!r} is not one of {REDUCTIONS}")
    if reduction != "none":
        need_number(data, f"{name}: reduction {reduction!r}")
    if reduction in ("add", "mul") and data.dtype.kind == "b":
        raise InvalidModelError(f"{name}: reduction {reduction!r} is not defined for bool")


def _scatter_elements_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    name = "scatter_elements"
    data, index, updates = types
    _check_scatter(types, attrs, name)
    if not 0 < data.rank == index.rank == updates.rank:
        raise InvalidModelError(f"{name} needs operands of one rank above 0: {data}, {index}")
    axis = normalize_axis(attrs["axis"], data.rank, name)
    for i, (d, n, u) in enumerate(zip(data.shape, index.shape, updates.shape, strict=True)):
        ctx.same(n, u, f"{name}: dimension {i} of indices and updates")
        if i != axis:
            ctx.require(n, "<=", d, f"{name}: dimension {i} of indices and data")
    return [data]


def _scatter_nd_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    data, index, updates = types
    _check_scatter(types, attrs, "scatter_nd")
    depth = index.shape[-1] if index.rank else None
    if depth is not None and not isinstance(depth, int):
        raise symbolic_depth("scatter_nd", depth)
    if not isinstance(depth, int) or depth > data.rank:
        raise InvalidModelError(f"scatter_nd: indices {index} do not fit data {data}")
    wanted = (*index.shape[:-1], *data.shape[depth:])
    if len(wanted) != updates.rank:
        raise InvalidModelError(f"scatter_nd: updates {updates} need the rank of {list(wanted)}")
    for i, (a, b) in enumerate(zip(wanted, updates.shape, strict=True)):
        ctx.same(a, b, f"scatter_nd: dimension {i} of the updates")
    return [data]


def _write(out: Array, places: Array, updates: Array, reduction: str) -> None:
    """In order of the updates: the last one wins, or each is combined."""
    if reduction == "none":
        out[places] = updates
        return
    ufunc: np.ufunc = {
        "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    }[reduction]  # fmt: skip
    with np.errstate(all="ignore"):
        ufunc.at(out, places, updates)


def _scatter_arrays(arrays: Sequence[Array], reduction: str) -> tuple[Array, Array]:
    """A fresh copy of data, and updates, in the dtype they are combined in."""
    data, updates = np.asarray(arrays[0]), np.asarray(arrays[2])
    if reduction in ("add", "mul"):
        data, updates = wide(data), wide(updates)
    elif reduction != "none":
        data, updates = comparable(data), comparable(updates)
    # In C order, so that a flat view of it can be written to.
    return np.array(data, order="C"), updates


def _check_range(index: Array, size: int) -> Array:
    """Indices as 0..size-1. Raises IndexError for one outside."""
    index = index.astype(np.int64)
    if ((index < -size) | (index >= size)).any():
        raise IndexError(f"an index is outside a dimension of size {size}")
    return np.where(index < 0, index + size, index)


def _scatter_elements_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    reduction = attrs.get("reduction", "none")
    out, updates = _scatter_arrays(arrays, reduction)
    axis = normalize_axis(attrs["axis"], out.ndim, "scatter_elements")
    index = np.asarray(arrays[1])
    grid: list[Array] = list(np.indices(index.shape))
    grid[axis] = _check_range(index, out.shape[axis])
    flat = sum(
        (g * int(np.prod(out.shape[i + 1 :], dtype=np.int64)) for i, g in enumerate(grid)),
        np.zeros(index.shape, np.int64),
    )
    _write(out.reshape(-1), flat.reshape(-1), updates.reshape(-1), reduction)
    return [narrow_to(out, results[0])]


def _scatter_nd_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    reduction = attrs.get("reduction", "none")
    out, updates = _scatter_arrays(arrays, reduction)
    index = np.asarray(arrays[1])
    depth = index.shape[-1]
    rows = np.zeros(index.shape[:-1], np.int64)
    for axis in range(depth):
        rows = rows * out.shape[axis] + _check_range(index[..., axis], out.shape[axis])
    tail = out.shape[depth:]
    blocks = out.reshape((int(np.prod(out.shape[:depth], dtype=np.int64)), *tail))
    _write(blocks, rows.reshape(-1), updates.reshape((rows.size, *tail)), reduction)
    return [narrow_to(blocks.reshape(out.shape), results[0])]


def _updates_cost(
    operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs
) -> Cost:
    return Cost(operands[2].elements)


def _topk_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    need_number(types[0], "topk")
    x = types[0]
    axis = normalize_axis(attrs["axis"], x.rank, "topk")
    size = x.shape[axis] if x.rank else 1
    ctx.require(attrs["k"], ">=", 0, "topk: k")
    ctx.require(attrs["k"], "<=", size, f"topk: k and dimension {axis}")
    shape = (*x.shape[:axis], attrs["k"], *x.shape[axis + 1 :]) if x.rank else ()
    return [x.with_shape(shape), TensorType(shape, I64)]


def _topk_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    original = np.asarray(arrays[0])
    x = np.atleast_1d(comparable(original))
    axis = normalize_axis(attrs["axis"], x.ndim, "topk")
    if attrs["largest"]:
        backward = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backward, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    order = order[(slice(None),) * axis + (slice(0, evaluate(attrs["k"], {})),)]
    values = np.take_along_axis(np.atleast_1d(original), order, axis=axis)
    shape = concrete(results[0])
    return [values.reshape(shape), order.astype(np.int64).reshape(shape)]


def _topk_cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    """About four comparisons an element."""
    return Cost(mul(operands[0].elements, 4))


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.cumsum", "kernel", _cumsum_infer, _cumsum_reference, (1, 1),
        {"axis": "int", "exclusive": "bool?", "reverse": "bool?"}, "accumulated",
        doc="Running sum; exclusive leaves the element itself out; reverse runs from the end.",
    ),
    OpDef(
        "cuvil.scatter_elements", "kernel", _scatter_elements_infer, _scatter_elements_reference,
        (3, 3), {"axis": "int", "reduction": "str?"}, "accumulated", _updates_cost,
        doc="data, indices, updates: out[.., indices[i, j], ..] = updates[i, j], in order."
        " Reductions: none, add, mul, max, min.",
    ),
    OpDef(
        "cuvil.scatter_nd", "kernel", _scatter_nd_infer, _scatter_nd_reference, (3, 3),
        {"reduction": "str?"}, "accumulated", _updates_cost,
        doc="data, indices [..., K], updates: out[indices[i]] = updates[i], in order.",
    ),
    OpDef(
        "cuvil.topk", "kernel", _topk_infer, _topk_reference, (1, 1),
        {"k": "dim", "axis": "int", "largest": "bool", "sorted": "bool"}, cost=_topk_cost,
        doc="Values and i64 indices, best first whether or not sorted is asked. Ties: the lowest"
        " index first. NaN is the largest value.",
    ),
]  # fmt: skip
