"""Constants, sizes, and what moves elements without changing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.frontends.onnx_export.maps import Writer, operands
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.ir.core import Op, Value
from cuvil.ir.types import I32, I64, DType
from cuvil.sym.expr import Dim, Expr, add, mul

_END = -(2**63) + 1  # as the end of a slice that goes backwards through element 0


def index_of(scope: Scope, value: Value) -> str:
    """Indices in a type that ONNX takes them in."""
    dtype = value.type.dtype
    return scope.cast(scope.name(value), dtype, dtype if dtype in (I32, I64) else I64)


def as_scalar(scope: Scope, name: str) -> str:
    """A vector of one element as a tensor of rank 0."""
    return scope.node("Squeeze", name, scope.ints([0]))


def _constant(scope: Scope, op: Op) -> list[str]:
    weight = op.attrs["value"]
    return [scope.constant(weight.array, weight.name or "weight")]


def _dims(scope: Scope, op: Op) -> list[str]:
    if op.attrs.get("scalar", False):
        value = op.attrs["values"][0]
        if isinstance(value, int):
            return [scope.number(value, I64)]
        return [as_scalar(scope, scope.dim(value))]
    return [scope.shape(op.attrs["values"])]


def count_up(scope: Scope, size: Dim) -> str:
    """0, 1, 2 ... as an i64 vector."""
    if isinstance(size, int):
        return scope.constant(np.arange(size, dtype=np.int64), "iota")
    end = as_scalar(scope, scope.dim(size))
    return scope.node("Range", scope.number(0, I64), end, scope.number(1, I64))


def _iota(scope: Scope, op: Op) -> list[str]:
    shape, axis = op.attrs["shape"], op.attrs["axis"]
    line = scope.cast(count_up(scope, shape[axis]), I64, op.attrs["dtype"])
    if len(shape) == 1:
        return [line]
    others = [i for i in range(len(shape)) if i != axis]
    column = scope.node("Unsqueeze", line, scope.ints(others))
    return [scope.node("Expand", column, scope.shape(shape))]


def reshaped(scope: Scope, name: str, source: Sequence[Dim], shape: Sequence[Dim]) -> str:
    """A reshape; dims that stay in place, and one other, need no numbers."""
    if tuple(source) == tuple(shape):
        return name
    if all(isinstance(d, int) for d in shape):
        return scope.node("Reshape", name, scope.shape(shape), **_literal_zeros(shape))
    places = [
        0 if isinstance(d, Expr) and i < len(source) and source[i] == d else d
        for i, d in enumerate(shape)
    ]
    left = [i for i, d in enumerate(places) if isinstance(d, Expr)]
    known = all(d != 0 for d in shape)
    if known and len(left) == 1 and all(not isinstance(d, Expr) or scope.facts.positive(d)
                                        for i, d in enumerate(shape) if i != left[0]):  # fmt: skip
        places[left[0]] = -1
        left = []
    if known and not left:
        return scope.node("Reshape", name, scope.shape(places))
    return scope.node("Reshape", name, scope.shape(shape), allowzero=1)


def _literal_zeros(shape: Sequence[Dim]) -> dict[str, Any]:
    return {"allowzero": 1} if 0 in shape else {}


def _reshape(scope: Scope, op: Op) -> list[str]:
    (x,) = op.operands
    return [reshaped(scope, scope.name(x), x.type.shape, op.type.shape)]


def _transpose(scope: Scope, op: Op) -> list[str]:
    return [scope.node("Transpose", *operands(scope, op), perm=list(op.attrs["perm"]))]


def _broadcast(scope: Scope, op: Op) -> list[str]:
    return [scope.node("Expand", *operands(scope, op), scope.shape(op.type.shape))]


def _slice(scope: Scope, op: Op) -> list[str]:
    x = op.operands[0].type.shape
    parts = zip(op.attrs["start"], op.attrs["size"], op.attrs["step"], strict=True)
    axes, starts, ends, steps = [], [], [], []
    for axis, (start, size, step) in enumerate(parts):
        if (start, step) == (0, 1) and size == x[axis]:
            continue
        axes.append(axis)
        starts.append(scope.dim(start))
        ends.append(_end(scope, start, size, step))
        steps.append(step)
    if not axes:
        return operands(scope, op)
    numbers = [starts[0] if len(axes) == 1 else scope.node("Concat", *starts, axis=0),
               ends[0] if len(axes) == 1 else scope.node("Concat", *ends, axis=0)]  # fmt: skip
    given = [*numbers, scope.ints(axes)] + ([scope.ints(steps)] if set(steps) != {1} else [])
    return [scope.node("Slice", *operands(scope, op), *given)]


def _end(scope: Scope, start: Dim, size: Dim, step: int) -> str:
    """Where a slice ends; past element 0 there is no place but the least number."""
    end = add(start, mul(size, step))
    if step > 0 or scope.facts.nonnegative(end):
        return scope.dim(end)
    if isinstance(end, int) or scope.facts.less(end, 0):
        return scope.ints([_END])
    name = scope.dim(end)
    return scope.node("Where", scope.node("Less", name, scope.ints([0])), scope.ints([_END]), name)


def _concat(scope: Scope, op: Op) -> list[str]:
    names = operands(scope, op)
    return names if len(names) == 1 else [scope.node("Concat", *names, axis=op.attrs["axis"])]


def padded(
    scope: Scope, name: str, dtype: DType, lo: Sequence[Dim], hi: Sequence[Dim], value: float
) -> str:
    """Constant padding on all axes; negative pads crop."""
    fill = [scope.number(value, dtype)] if value else []
    return scope.node("Pad", name, scope.shape([*lo, *hi]), *fill)


def _pad(scope: Scope, op: Op) -> list[str]:
    (x,) = op.operands
    lo, hi, mode = op.attrs["lo"], op.attrs["hi"], op.attrs.get("mode", "constant")
    name = scope.name(x)
    if mode == "constant":
        return [padded(scope, name, x.type.dtype, lo, hi, op.attrs.get("value") or 0.0)]
    for axis, (low, high) in enumerate(zip(lo, hi, strict=True)):
        if low == 0 and high == 0:
            continue
        index = _repeating(scope, x.type.shape[axis], low, high, mode)
        name = scope.node("Gather", name, index, axis=axis)
    return [name]


def _repeating(scope: Scope, size: Dim, low: Dim, high: Dim, mode: str) -> str:
    """Which element stands at each place of a padded axis: a constant where sizes are known."""
    if isinstance(size, int) and isinstance(low, int) and isinstance(high, int):
        at = np.arange(-low, size + high)
        if mode == "reflect":
            period = max(2 * (size - 1), 1)
            at = np.abs((at + size - 1) % period - (size - 1)) if size > 1 else at * 0
        else:
            at = at % max(size, 1) if mode == "wrap" else np.clip(at, 0, size - 1)
        return scope.constant(at.astype(np.int64), "places")
    line = count_up(scope, add(size, add(low, high)))
    at_name = scope.node("Sub", line, scope.dim(low))
    last, whole = scope.dim(add(size, -1)), scope.dim(size)
    if mode == "wrap":
        return scope.node("Mod", at_name, whole)
    if mode == "edge":
        inside = scope.node("Max", at_name, scope.ints([0]))
        return scope.node("Min", inside, last)
    period_name = scope.node("Max", scope.dim(mul(add(size, -1), 2)), scope.ints([1]))
    turned = scope.node("Mod", scope.node("Add", at_name, last), period_name)
    mirrored = scope.node("Abs", scope.node("Sub", turned, last))
    return scope.node("Min", mirrored, last)


def _gather(name: str) -> Writer:
    def write(scope: Scope, op: Op) -> list[str]:
        data, index = op.operands
        axis = {"axis": op.attrs["axis"]} if name != "GatherND" else {}
        batch = {"batch_dims": op.attrs["batch_dims"]} if op.attrs.get("batch_dims") else {}
        at = index_of(scope, index)
        if name == "GatherND":
            at = scope.cast(at, I32, I64) if index.type.dtype == I32 else at
        return [scope.node(name, scope.name(data), at, **axis, **batch)]

    return write


WRITERS: Mapping[str, Writer] = {
    "constant": _constant,
    "dims": _dims,
    "iota": _iota,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "gather": _gather("Gather"),
    "gather_elements": _gather("GatherElements"),
    "gather_nd": _gather("GatherND"),
}
