"""Shapes: asking for them, computing new ones, and the tensors made from a shape alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.run_time import expanded, range_size, reshaped
from cuvil.frontends.onnx.run_time_axes import squeezed, unsqueezed
from cuvil.frontends.onnx.types import dtype_from, tensor_array
from cuvil.ir.core import Value
from cuvil.ir.types import I64, Shape
from cuvil.sym.expr import Dim, Expr, add, floordiv, maximum, mul, product, split_multiple

_FILL_LIMIT = 1 << 27


def _shape(n: Node) -> Value:
    shape = n[0].type.shape
    if n.version >= 15:
        end = n.attrs.get("end")
        return n.e.dims(shape[n.integer("start", 0) : len(shape) if end is None else end])
    return n.e.dims(shape)


def _size(n: Node) -> Value:
    return n.e.dims([n[0].type.elements], scalar=True)


def _reshape(n: Node) -> Value:
    """0 copies the input's dim (unless allowzero), one -1 takes what is left (Reshape-14)."""
    x = n[0]
    target: list[Dim] = (
        list(n.integers("shape")) if n.version < 5 else _target(n)
    )
    shape: list[Dim] = []
    for i, d in enumerate(target):
        if d == 0 and not n.integer("allowzero", 0):
            if i >= x.type.rank:
                raise InvalidModelError(f"Reshape: 0 at place {i} of rank {x.type.rank}")
            d = x.type.shape[i]
        shape.append(d)
    if shape.count(-1) > 1:
        raise InvalidModelError(f"Reshape: more than one -1 in {target}")
    if -1 in shape:
        at = shape.index(-1)
        shape[at] = remaining(n, x.type.elements, shape[:at] + shape[at + 1 :])
    return n.e.reshape(x, shape)


def _target(n: Node) -> list[Dim]:
    found = n.some(1, "the target shape")
    return reshaped(n, found) if None in found else n.dims(1, "the target shape")


def remaining(n: Node, elements: Dim, others: Sequence[Dim]) -> Dim:
    """elements / product(others), exactly where the symbols allow it."""
    known = product(others)
    if known == 0:
        raise InvalidModelError(f"{n.op}: -1 beside a dimension of size 0")
    quotient, rest = split_multiple(elements, known)
    if rest == 0:
        return quotient
    if isinstance(elements, int) and isinstance(known, int):
        raise InvalidModelError(f"{n.op}: {elements} elements don't divide by {known}")
    return n.e.simplify(floordiv(elements, known))


def _flatten(n: Node) -> Value:
    x = n[0]
    axis = n.integer("axis", 1)
    if not -x.type.rank <= axis <= x.type.rank:
        raise InvalidModelError(f"Flatten: axis {axis} is outside rank {x.type.rank}")
    axis = axis + x.type.rank if axis < 0 else axis
    shape = x.type.shape
    return n.e.reshape(x, (product(shape[:axis]), product(shape[axis:])))


def _given_axes(n: Node) -> list[int] | None:
    if n.version < 13:
        return n.integers("axes") if "axes" in n.attrs else None
    return n.static(1, "the axes") if n.has(1) else None


def _are_data(n: Node) -> bool:
    return n.version >= 13 and n.has(1) and None in n.some(1, "the axes")


def _squeeze(n: Node) -> Value:
    """Without axes every dim of size 1 goes; a symbolic one stays, and must not be 1."""
    x = n[0]
    if _are_data(n):
        return squeezed(n, x, 1)
    axes = _given_axes(n)
    if axes is not None:
        return n.e.squeeze(x, [n.count(a, x.type.rank) for a in axes])
    for i, d in enumerate(x.type.shape):
        if isinstance(d, Expr):
            n.e.context.require(d, "!=", 1, f"Squeeze without axes: dimension {i}")
    return n.e.reshape(x, [d for d in x.type.shape if d != 1])


def _unsqueeze(n: Node) -> Value:
    x = n[0]
    if _are_data(n):
        return unsqueezed(n, x, 1)
    axes = _given_axes(n)
    if axes is None:
        raise InvalidModelError("Unsqueeze needs axes")
    rank = x.type.rank + len(axes)
    new = {n.count(a, rank) for a in axes}
    if len(new) != len(axes):
        raise InvalidModelError(f"Unsqueeze: an axis is named twice in {axes}")
    old = iter(x.type.shape)
    return n.e.reshape(x, [1 if i in new else next(old) for i in range(rank)])


def _expand(n: Node) -> Value:
    what = "the target shape"
    found = n.some(1, what)
    target = list(expanded(n, found, what) if None in found else n.dims(1, what))
    x, rank = n[0], n[0].type.rank
    for axis in range(max(rank - len(target), 0), rank):
        at = axis - rank + len(target)
        x, target[at] = _stretched(n, x, axis, target[at])
    shape = n.e.context.broadcast([x.type.shape, tuple(target)], "Expand")
    return n.e.broadcast(x, shape)


def _stretched(n: Node, x: Value, axis: int, size: Dim) -> tuple[Value, Dim]:
    """x and the size to expand it to along an axis, where one of the sizes is known, is not 1, and
    the other is a symbol that may be 1."""
    e, have = n.e, x.type.shape[axis]
    known, other = (have, size) if isinstance(have, int) else (size, have)
    may_be_one = isinstance(other, Expr) and not e.context.facts.less(1, other)
    if not isinstance(known, int) or known < 2 or not may_be_one:
        return x, size
    either = mul(add(other, -1), add(other, -known))
    e.context.require(either, "==", 0, f"Expand: dimension {axis} is 1 or {known}")
    if isinstance(have, int):
        return x, 1
    line = e.op("iota", shape=(known,), axis=0, dtype=I64)
    at = e.map("min", line, e.dims([add(have, -1)], scalar=True))
    return e.op("gather", x, at, axis=axis), known


def _tile(n: Node) -> Value:
    x = n[0]
    repeats: list[Dim] = [1] * x.type.rank
    if n.version < 6:
        repeats[n.static(2, "the axis")[0]] = n.sizes(1, "the number of tiles")[0]
    else:
        repeats = n.sizes(1, "the repeats")
    if len(repeats) != x.type.rank:
        raise InvalidModelError(f"Tile: {len(repeats)} repeats for rank {x.type.rank}")
    return tiled(n, x, repeats)


def tiled(n: Node, x: Value, repeats: Sequence[Dim]) -> Value:
    """Every dim repeated: [a, b] as [1, a, 1, b], broadcast, and joined again."""
    shape = x.type.shape
    if all(r == 1 for r in repeats):
        return x
    apart: list[Dim] = []
    wide: list[Dim] = []
    for d, r in zip(shape, repeats, strict=True):
        apart += [d] if r == 1 else [1, d]
        wide += [d] if r == 1 else [r, d]
    spread = n.e.broadcast(n.e.reshape(x, apart), tuple(wide))
    return n.e.reshape(spread, [mul(d, r) for d, r in zip(shape, repeats, strict=True)])


def _constant_of_shape(n: Node) -> Value:
    """A stored tensor where the shape is known (weights come so), else a broadcast scalar."""
    shape = tuple(n.sizes(0, "the shape"))
    fill = np.zeros(1, np.float32)
    if "value" in n.attrs:
        fill = tensor_array(n.attrs["value"])
    if fill.size != 1:
        raise InvalidModelError(f"ConstantOfShape: its value has {fill.size} elements, not 1")
    return filled(n, shape, fill.reshape(()))


def filled(n: Node, shape: Shape, fill: np.ndarray) -> Value:
    """A tensor of one number."""
    known = [d for d in shape if isinstance(d, int)]
    if any(d < 0 for d in known):
        raise InvalidModelError(f"{n.op}: {shape} has a negative dimension")
    if len(known) == len(shape) and math.prod(known) <= _FILL_LIMIT:
        return n.e.weight(np.full(known, fill, fill.dtype), n.outputs[0])
    return n.e.broadcast(n.e.weight(fill, n.outputs[0]), shape)


def _range(n: Node) -> Value:
    """max(ceil((limit - start) / delta), 0) elements (Range-11)."""
    found = [n.knowledge.array(n[i]) for i in range(3)]
    arrays = [a for a in found if a is not None]
    if len(arrays) == 3:
        start, limit, delta = (a.reshape(())[()] for a in arrays)
        if delta == 0:
            raise InvalidModelError("Range: its step is 0")
        if n.dtype().is_float:
            count = max(math.ceil((float(limit) - float(start)) / float(delta)), 0)
        else:
            count = max(-((int(start) - int(limit)) // int(delta)), 0)
        if count > _FILL_LIMIT:
            raise InvalidModelError(f"Range: {count} elements")
        steps = np.arange(count).astype(arrays[0].dtype)
        return n.e.weight(start + steps * delta, n.outputs[0])
    ends = [n.knowledge.whole(n[i]) for i in range(3)]
    steps = ends[2]
    known = ends[0] is not None and ends[1] is not None and not n.dtype().is_float
    if not known or steps is None or not isinstance(steps[0], int):
        return _computed_range(n)
    low, end, step = (found[0] for found in ends if found is not None)
    assert isinstance(step, int)
    if step == 0:
        raise InvalidModelError("Range: its step is 0")
    span = add(end, mul(low, -1)) if step > 0 else add(low, mul(end, -1))
    length = n.e.simplify(maximum(floordiv(add(span, abs(step) - 1), abs(step)), 0))
    line = n.e.op("iota", shape=(length,), axis=0, dtype=n.dtype())
    if step != 1:
        line = n.e.with_scalar("mul", line, step)
    return line if low == 0 else n.e.map("add", line, n.e.reshape(n[0], ()))


def _computed_range(n: Node) -> Value:
    """A range whose length data decides."""
    start, limit, step = (n.e.reshape(n[i], ()) for i in range(3))
    size = range_size(n, start, limit, step)
    line = n.e.op("iota", shape=(size,), axis=0, dtype=n.dtype())
    return n.e.map("add", start, n.e.map("mul", line, step))


def _eye_like(n: Node) -> Value:
    shape = n[0].type.shape
    if len(shape) != 2:
        raise InvalidModelError(f"EyeLike needs a matrix, got {n[0].type}")
    kind = dtype_from(n.integer("dtype")) if "dtype" in n.attrs else n.dtype()
    rows, columns = index_grid(n, shape)
    diagonal = n.e.with_scalar("add", rows, n.integer("k", 0))
    return n.e.cast(n.e.op("eq", diagonal, columns), kind)


def index_grid(n: Node, shape: Shape) -> tuple[Value, Value]:
    """Row and column numbers (i64) of the last two dims, as matrices."""
    matrix = shape[-2:]
    rows = n.e.op("iota", shape=matrix, axis=0, dtype=I64)
    return rows, n.e.op("iota", shape=matrix, axis=1, dtype=I64)


def _trilu(n: Node) -> Value:
    """Upper keeps j - i >= k, lower keeps j - i <= k (Trilu-14)."""
    x, e = n[0], n.e
    if x.type.rank < 2:
        raise InvalidModelError(f"Trilu needs a matrix, got {x.type}")
    rows, columns = index_grid(n, x.type.shape)
    offset = e.op("sub", columns, rows)
    k = e.cast(e.reshape(n[1], ()), I64) if n.has(1) else e.scalar(0, I64)
    keep = e.map("ge" if n.integer("upper", 1) else "le", offset, k)
    return e.map("select", keep, x, e.scalar(0, x.type.dtype))


TABLE: dict[str, Handler] = {
    "Shape": _shape,
    "Size": _size,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Tile": _tile,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "EyeLike": _eye_like,
    "Trilu": _trilu,
}
