"""Sources and movements: operators that make or rearrange elements and compute none.

All of them are index maps, so a fused kernel reads through them without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import I64, TensorType
from cuvil.ops.base import (
    Array,
    Attrs,
    Cost,
    OpDef,
    ShapeContext,
    normalize_axis,
    same_dtype,
)
from cuvil.ops.numeric import concrete
from cuvil.sym.expr import Dim, add, evaluate, floordiv, mul, product

PAD_MODES = ("constant", "reflect", "edge", "wrap")


def _free(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    return Cost(0)


def _constant(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    return [attrs["value"].type]


def _dims(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    values = attrs["values"]
    return [TensorType(() if attrs.get("scalar", False) else (len(values),), I64)]


def _dims_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    values = np.array([evaluate(v, {}) for v in attrs["values"]], dtype=np.int64)
    return [values[0].reshape(()) if attrs.get("scalar", False) else values]


def _iota(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    shape = tuple(attrs["shape"])
    if not 0 <= attrs["axis"] < len(shape):
        raise InvalidModelError(f"iota: axis {attrs['axis']} is outside rank {len(shape)}")
    if attrs["dtype"].is_narrow:
        raise InvalidModelError(f"iota is not defined for {attrs['dtype']}")
    return [TensorType(shape, attrs["dtype"])]


def _iota_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    shape = concrete(results[0])
    axis = attrs["axis"]
    line = np.arange(shape[axis], dtype=np.int64)
    column = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return [np.broadcast_to(column, shape).astype(results[0].dtype.numpy)]


def _reshape(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    shape = tuple(attrs["shape"])
    ctx.require(types[0].elements, "==", product(shape), "reshape keeps the number of elements")
    return [types[0].with_shape(shape)]


def _transpose(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    perm = attrs["perm"]
    if sorted(perm) != list(range(types[0].rank)):
        raise InvalidModelError(f"transpose: {perm} is no permutation of rank {types[0].rank}")
    return [types[0].with_shape(tuple(types[0].shape[p] for p in perm))]


def _broadcast(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    shape = tuple(attrs["shape"])
    source = types[0].shape
    if len(source) > len(shape):
        raise InvalidModelError(f"broadcast: rank {len(source)} does not fit rank {len(shape)}")
    for axis, have in enumerate(source, len(shape) - len(source)):
        if have != 1:
            ctx.same(have, shape[axis], f"broadcast: dimension {axis}")
    return [types[0].with_shape(shape)]


def _slice(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    size = tuple(attrs["size"])
    if not len(attrs["start"]) == len(size) == len(attrs["step"]) == types[0].rank:
        raise InvalidModelError("slice: start, size and step need one entry for each dimension")
    if any(step == 0 for step in attrs["step"]):
        raise InvalidModelError("slice: a step of 0")
    for axis, (start, count, step) in enumerate(
        zip(attrs["start"], size, attrs["step"], strict=True)
    ):
        _check_slice(types[0].shape[axis], start, count, step, f"slice: dimension {axis}")
        _require_inside(ctx, types[0].shape[axis], start, count, step)
    return [types[0].with_shape(size)]


def _require_inside(ctx: ShapeContext, dim: Dim, start: Dim, count: Dim, step: int) -> None:
    """The first and the last element lie in the operand; right for a count of 0 too."""
    if count == 0 or (isinstance(start, int) and isinstance(count, int) and isinstance(dim, int)):
        return
    last = add(start, mul(add(count, -1), step))
    low, high = (start, last) if step > 0 else (last, start)
    ctx.require(count, ">=", 0, "slice: a size")
    ctx.require(low, ">=", 0, "slice: the first element")
    ctx.require(add(high, 1), "<=", dim, "slice: the last element")


def _check_slice(dim: Dim, start: Dim, count: Dim, step: int, what: str) -> None:
    """Raises InvalidModelError where known numbers leave the operand."""
    if isinstance(count, int) and count < 0:
        raise InvalidModelError(f"{what}: a size of {count}")
    if count == 0 or not isinstance(start, int):
        return
    last = add(start, mul(add(count, -1), step))
    inside = start >= 0 and not (isinstance(last, int) and last < 0)
    if isinstance(dim, int):
        reach = dim if isinstance(count, int) else dim + 1  # a symbolic count may be 0
        inside = inside and start < reach and not (isinstance(last, int) and last >= dim)
    if not inside:
        raise InvalidModelError(f"{what}: elements {start} to {last} of {dim}")


def _slice_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    out = arrays[0]
    for axis, (start, step) in enumerate(zip(attrs["start"], attrs["step"], strict=True)):
        size = evaluate(results[0].shape[axis], {})
        picks = evaluate(start, {}) + np.arange(size, dtype=np.int64) * step
        if size and min(picks[0], picks[-1]) < 0:
            raise IndexError(f"slice: elements {picks[0]} to {picks[-1]} of {out.shape[axis]}")
        out = np.take(out, picks, axis=axis)
    return [out]


def _concat(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    dtype = same_dtype(types, "concat")
    axis = normalize_axis(attrs["axis"], types[0].rank, "concat")
    shape = list(types[0].shape)
    total: Dim = 0
    for t in types:
        if t.rank != len(shape):
            raise InvalidModelError("concat needs operands of one rank")
        for i in range(len(shape)):
            if i != axis:
                shape[i] = ctx.same(shape[i], t.shape[i], f"concat: dimension {i}")
        total = add(total, t.shape[axis])
    shape[axis] = total
    return [TensorType(tuple(shape), dtype)]


def _pad(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    if attrs.get("mode", "constant") not in PAD_MODES:
        raise InvalidModelError(f"pad: mode {attrs['mode']!r} is not one of {PAD_MODES}")
    shape: list[Dim] = []
    for axis, (d, lo, hi) in enumerate(zip(types[0].shape, attrs["lo"], attrs["hi"], strict=True)):
        shape.append(add(d, add(lo, hi)))
        ctx.require(shape[-1], ">=", 0, f"pad: dimension {axis} after padding")
        if attrs.get("mode", "constant") != "constant" and (lo != 0 or hi != 0):
            ctx.require(d, ">=", 1, f"pad: an element to repeat along dimension {axis}")
    return [types[0].with_shape(tuple(shape))]


def _pad_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """Source index for each output index; negative pads crop, reflect repeats when it must."""
    mode = attrs.get("mode", "constant")
    out = arrays[0]
    for axis, low in enumerate(attrs["lo"]):
        size = out.shape[axis]
        at = np.arange(evaluate(results[0].shape[axis], {})) - evaluate(low, {})
        inside = (at >= 0) & (at < size)
        if mode == "reflect":
            period = max(2 * (size - 1), 1)
            at = np.abs((at + size - 1) % period - (size - 1)) if size > 1 else at * 0
        elif mode == "wrap":
            at = at % max(size, 1)
        elif mode == "edge":
            at = np.clip(at, 0, max(size - 1, 0))
        safe = np.where(inside, at, 0) if mode == "constant" else at
        if size == 0:
            moved = np.zeros(out.shape[:axis] + (len(at),) + out.shape[axis + 1 :], out.dtype)
        else:
            moved = np.take(out, safe, axis=axis)
        if mode == "constant":
            mask = inside.reshape([-1 if i == axis else 1 for i in range(out.ndim)])
            moved = np.where(mask, moved, np.asarray(attrs.get("value", 0)).astype(out.dtype))
        out = moved.astype(arrays[0].dtype)
    return [out]


def _gather(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    axis = normalize_axis(attrs["axis"], types[0].rank, "gather")
    if not types[1].dtype.is_integer:
        raise InvalidModelError(f"gather needs integer indices, got {types[1].dtype}")
    shape = types[0].shape
    return [types[0].with_shape(shape[:axis] + types[1].shape + shape[axis + 1 :])]


def _gather_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    index = _indices(arrays[1], attrs)
    return [np.asarray(np.take(arrays[0], index, axis=attrs["axis"]))]


def _indices(given: Array, attrs: Attrs) -> Array:
    """As int64. Raises IndexError for a negative one where those don't count from the end."""
    index = np.asarray(given).astype(np.int64)
    if not attrs.get("from_end", True) and (index < 0).any():
        raise IndexError(f"index {index.min()} is negative")
    return index


def _gather_elements(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    axis = normalize_axis(attrs["axis"], types[0].rank, "gather_elements")
    if types[0].rank != types[1].rank or not types[0].rank:
        raise InvalidModelError("gather_elements: data and indices need one rank above 0")
    if not types[1].dtype.is_integer:
        raise InvalidModelError(f"gather_elements needs integer indices, got {types[1].dtype}")
    for i, (d, n) in enumerate(zip(types[0].shape, types[1].shape, strict=True)):
        if i != axis:
            ctx.require(n, "<=", d, f"gather_elements: dimension {i} of indices and data")
    return [types[0].with_shape(types[1].shape)]


def _gather_elements_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    data, index = arrays
    axis = attrs["axis"] % data.ndim
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis] = _indices(index, attrs)
    return [data[tuple(grid)]]


def symbolic_depth(name: str, depth: Dim) -> InvalidModelError:
    """The refusal of indices whose last dimension, which decides the result's rank, is a symbol."""
    return InvalidModelError(
        f"{name}: the last dimension of the indices is {depth}, and it decides how many "
        "dimensions the result has",
        hint="fix it: give this dimension a number in the model or in input_spec",
    )


def _gather_nd(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    batch = attrs.get("batch_dims", 0)
    depth = types[1].shape[-1] if types[1].rank > batch else None
    if depth is not None and not isinstance(depth, int):
        raise symbolic_depth("gather_nd", depth)
    if not isinstance(depth, int) or not 1 <= depth <= types[0].rank - batch:
        raise InvalidModelError(f"gather_nd: indices {types[1]} do not fit data {types[0]}")
    if not types[1].dtype.is_integer:
        raise InvalidModelError(f"gather_nd needs integer indices, got {types[1].dtype}")
    for i in range(batch):
        ctx.same(types[0].shape[i], types[1].shape[i], f"gather_nd: batch dimension {i}")
    rest = types[0].shape[batch + depth :]
    return [types[0].with_shape(types[1].shape[:-1] + rest)]


def _gather_nd_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    data, index = arrays
    batch = attrs.get("batch_dims", 0)
    where = [index[..., i].astype(np.int64) for i in range(index.shape[-1])]
    lead = index.shape[:-1]
    for axis in reversed(range(batch)):
        line = np.arange(lead[axis]).reshape([-1 if i == axis else 1 for i in range(len(lead))])
        where.insert(0, np.broadcast_to(line, lead))
    return [np.asarray(data[tuple(where)])]


def tile_shape(shape: Sequence[Dim], repeats: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape after repeating each dimension."""
    return tuple(mul(d, r) for d, r in zip(shape, repeats, strict=True))


def slice_size(start: Dim, stop: Dim, step: int) -> Dim:
    """The number of picks of start:stop:step with stop on the right side of start."""
    if step > 0:
        return floordiv(add(add(stop, mul(start, -1)), step - 1), step)
    return floordiv(add(add(start, mul(stop, -1)), -step - 1), -step)


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.constant", "source", _constant,
        lambda arrays, attrs, results: [attrs["value"].array],
        (0, 0), {"value": "weight"}, cost=_free, doc="Data known at compile time.",
    ),
    OpDef(
        "cuvil.dims", "source", _dims, _dims_reference, (0, 0),
        {"values": "dims", "scalar": "bool?"}, cost=_free,
        doc="Integer expressions over symbols as an i64 vector (a scalar if asked).",
    ),
    OpDef(
        "cuvil.iota", "source", _iota, _iota_reference, (0, 0),
        {"shape": "dims", "axis": "int", "dtype": "dtype"}, cost=_free,
        doc="0, 1, 2 ... along an axis.",
    ),
    OpDef(
        "cuvil.reshape", "movement", _reshape,
        lambda arrays, attrs, results: [arrays[0].reshape(results[0].shape)],
        (1, 1), {"shape": "dims"}, cost=_free,
    ),
    OpDef(
        "cuvil.transpose", "movement", _transpose,
        lambda arrays, attrs, results: [np.transpose(arrays[0], attrs["perm"])],
        (1, 1), {"perm": "ints"}, cost=_free,
    ),
    OpDef(
        "cuvil.broadcast", "movement", _broadcast,
        lambda arrays, attrs, results: [np.broadcast_to(arrays[0], concrete(results[0]))],
        (1, 1), {"shape": "dims"}, cost=_free,
        doc="NumPy broadcasting to a shape, aligned at the end.",
    ),
    OpDef(
        "cuvil.slice", "movement", _slice, _slice_reference, (1, 1),
        {"start": "dims", "size": "dims", "step": "ints"}, cost=_free,
        doc="out[i] = in[start + i * step] in each dimension; a step may be negative.",
    ),
    OpDef(
        "cuvil.concat", "movement", _concat,
        lambda arrays, attrs, results: [np.concatenate(arrays, axis=attrs["axis"])],
        (1, None), {"axis": "int"}, cost=_free,
    ),
    OpDef(
        "cuvil.pad", "movement", _pad, _pad_reference, (1, 1),
        {"lo": "dims", "hi": "dims", "mode": "str?", "value": "float?"}, cost=_free,
        doc="Negative pads crop. Modes: constant, reflect, edge, wrap.",
    ),
    OpDef(
        "cuvil.gather", "movement", _gather,
        _gather_reference,
        (2, 2), {"axis": "int", "from_end": "bool?"}, cost=_free,
        doc="data, indices: rows picked along an axis. A negative index counts from the end, "
        "unless from_end is false: then it is outside.",
    ),
    OpDef(
        "cuvil.gather_elements", "movement", _gather_elements, _gather_elements_reference,
        (2, 2), {"axis": "int", "from_end": "bool?"}, cost=_free,
    ),
    OpDef(
        "cuvil.gather_nd", "movement", _gather_nd, _gather_nd_reference, (2, 2),
        {"batch_dims": "int?"}, cost=_free,
    ),
]  # fmt: skip
