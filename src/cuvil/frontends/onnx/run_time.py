"""Shapes that are data: what an operator's rules make of them, computed when the model runs.

An integer input may hold negative or special values (-1 for "the rest", ends counted from the back,
pads that crop). Here they become true sizes by arithmetic on the small tensor itself, and only
those are bound to symbols. What is known already stays as it is. A size of -1 stands for what the
operator does not allow: binding refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Node
from cuvil.ir.core import Value
from cuvil.ir.types import I64, U64
from cuvil.sym.expr import Dim, add, floordiv, maximum, mul

Some = Sequence["Dim | None"]
_FAR = 1 << 62
AXES = "-1 where an axis is out of range or given twice"


def chosen(n: Node, condition: Value, yes: Value, no: Value) -> Value:
    """Elementwise ``condition ? yes : no``."""
    return n.e.map("select", condition, yes, no)


def reshaped(n: Node, found: Some) -> list[Dim]:
    """The target of Reshape: 0 copies the input's dim, one -1 takes what is left."""
    e, x, target = n.e, n[0], n.vector(1)
    what = "the target shape"
    if not n.integer("allowzero", 0):
        own = [x.type.shape[i] if i < x.type.rank else -2 for i in range(len(found))]
        target = chosen(n, e.with_scalar("eq", target, 0), e.dims(own), target)
    if -1 not in found:
        open_ = e.with_scalar("eq", target, -1)
        sizes = chosen(n, open_, e.scalar(1, I64), target)
        rest = e.map(
            "div", e.dims([x.type.elements]),
            e.op("reduce_prod", sizes, axes=(0,), keepdims=True),
        )  # fmt: skip
        count = e.op("reduce_sum", e.cast(open_, I64), axes=(0,), keepdims=True)
        rest = chosen(n, e.with_scalar("gt", count, 1), e.scalar(-1, I64), rest)
        target = chosen(n, open_, rest, target)
    return n.bound(found, target, what)


def expanded(n: Node, found: Some, what: str) -> list[Dim]:
    """The target of Expand: 1 keeps the input's dim."""
    shape = n[0].type.shape
    aligned = [1] * (len(found) - len(shape)) + list(shape)
    own = n.e.dims(aligned[-len(found) :] if found else [])
    target = n.vector(1)
    target = chosen(n, n.e.with_scalar("eq", target, 1), own, target)
    return n.bound(found, target, what)


class Cut:
    """Slicing along one axis where some of start, end and step are data: vectors of one i64."""

    def __init__(self, n: Node, x: Value, axis: int) -> None:
        self.n = n
        self.x = x
        self.axis = axis
        self.size = x.type.shape[axis]
        self.whole = n.e.dims([self.size])

    def between(self, end: Value, low: Value, high: Value) -> Value:
        """A possibly negative end, counted from the front and kept in range."""
        e = self.n.e
        back = e.map("add", end, self.whole)
        front = chosen(self.n, e.with_scalar("lt", end, 0), back, end)
        return e.map("min", e.map("max", front, low), high)

    def forward(self, start: Value, end: Value, step: int, known: Dim | None) -> Value:
        """A positive step: a slice whose start and size are symbols. ``known`` is a start that is
        in range for sure."""
        e, n = self.n.e, self.n
        none = e.scalar(0, I64)
        first, last = (self.between(v, none, self.whole) for v in (start, end))
        span = e.with_scalar("add", e.with_scalar("max", e.map("sub", last, first), 0), step - 1)
        count = e.with_scalar("floordiv", span, step)
        both = e.op("concat", count, first, axis=0)
        what = f"the size and the start of the slice along axis {self.axis}"
        size, at = n.bound([None, known], both, what, "slice")
        starts: list[Dim] = [0] * self.x.type.rank
        sizes, steps = list(self.x.type.shape), [1] * self.x.type.rank
        starts[self.axis], sizes[self.axis], steps[self.axis] = at, size, step
        return e.op(
            "slice", self.x, start=tuple(starts), size=tuple(sizes), step=tuple(steps)
        )  # fmt: skip

    def any_way(self, start: Value, end: Value, step: Value, valid: Value | None = None) -> Value:
        """A step of either sign: picked by computed positions. ``valid``: whether the axes are."""
        e, n = self.n.e, self.n
        step = e.with_scalar("min", e.with_scalar("max", step, -_FAR), _FAR)
        up = e.with_scalar("gt", step, 0)
        low = chosen(n, up, e.scalar(0, I64), e.scalar(-1, I64))
        high = e.map("add", self.whole, low)
        first = self.between(start, e.scalar(0, I64), high)
        last = self.between(end, low, high)
        span = chosen(n, up, e.map("sub", last, first), e.map("sub", first, last))
        stride = e.op("abs", step)
        more = e.map("add", e.with_scalar("max", span, 0), e.with_scalar("sub", stride, 1))
        count = e.map("floordiv", more, stride)
        count = chosen(n, e.with_scalar("eq", step, 0), e.scalar(-1, I64), count)
        what = f"the size of the slice along axis {self.axis}"
        if valid is not None:
            count, what = chosen(n, valid, count, e.scalar(-1, I64)), f"{what} ({AXES})"
        (size,) = n.bound([None], count, what, "slice")
        e.context.require(size, "<=", self.size, "Slice: a part of the axis")
        line = e.op("iota", shape=(size,), axis=0, dtype=I64)
        at = e.map("add", first, e.map("mul", line, step))
        return e.op("gather", self.x, at, axis=self.axis, from_end=False)


def of_axis(n: Node, axes: Value, axis: int, rank: int, given: Value, default: Value) -> Value:
    """The entry of ``given`` whose axis is ``axis``, counted from the front or the back; the
    default where none is. One i64."""
    e = n.e
    here = e.map("or", e.with_scalar("eq", axes, axis), e.with_scalar("eq", axes, axis - rank))
    value = e.op(
        "reduce_sum", chosen(n, here, given, e.scalar(0, I64)), axes=(0,), keepdims=True
    )  # fmt: skip
    return chosen(n, e.op("reduce_any", here, axes=(0,), keepdims=True), value, default)


def valid_axes(n: Node, axes: Value, rank: int, lengths: Sequence[tuple[str, Dim]]) -> Value:
    """Whether each axis, counted from the front or the back, is one of ``rank`` and is given once:
    a scalar bool. Raises InvalidModelError where that can't be, or another input is not as long as
    it should be for so many axes."""
    e, count = n.e, axes.type.shape[0]
    for what, length in lengths:
        e.context.same(length, count, f"{n.op}: {what} for each axis")
    if isinstance(count, int) and count > rank:
        raise InvalidModelError(f"{n.op}: {count} axes of a tensor of rank {rank}")
    front = e.with_scalar("lt", axes, 0)
    front = chosen(n, front, e.with_scalar("add", axes, rank), axes)
    all_ = e.op("iota", shape=(rank,), axis=0, dtype=I64)
    hits = e.map("eq", e.unsqueeze(front, 1), e.unsqueeze(all_, 0))
    # As many of the tensor's axes are hit as are given: then none misses, and none hits one again.
    hit = e.cast(e.op("reduce_any", hits, axes=(0,), keepdims=False), I64)
    total = e.op("reduce_sum", hit, axes=(0,), keepdims=False)
    return e.map("eq", total, e.dims([count], scalar=True))


def cut_everywhere(n: Node) -> Value:
    """A slice whose axes are data: each axis of the input may be among them."""
    e, x, axes = n.e, n[0], n.vector(3)
    starts, ends = n.vector(1), n.vector(2)
    steps = n.vector(4) if n.has(4) else e.broadcast(e.scalar(1, I64), axes.type.shape)
    rank = x.type.rank
    given = {"a start": starts, "an end": ends, "a step": steps}
    valid = valid_axes(n, axes, rank, [(k, v.type.shape[0]) for k, v in given.items()])
    for axis in range(rank):
        zero, one = (e.broadcast(e.scalar(k, I64), (1,)) for k in (0, 1))
        start = of_axis(n, axes, axis, rank, starts, zero)
        end = of_axis(n, axes, axis, rank, ends, e.dims([x.type.shape[axis]]))
        step = of_axis(n, axes, axis, rank, steps, one)
        x = Cut(n, x, axis).any_way(start, end, step, valid)
    return x


def pads_of_axes(n: Node) -> tuple[Value, Value]:
    """Pads of every axis, where those that are padded are data, and whether the axes are valid."""
    e, axes, given, rank = n.e, n.vector(3), n.vector(1), n[0].type.rank
    count = axes.type.shape[0]
    valid = valid_axes(n, axes, rank, [])
    e.context.same(given.type.shape[0], mul(count, 2), "Pad: two pads for each axis")
    zero = e.broadcast(e.scalar(0, I64), (1,))
    parts = []
    for side in (0, 1):
        half = e.slice(given, 0, mul(count, side), mul(count, side + 1))
        parts += [of_axis(n, axes, axis, rank, half, zero) for axis in range(rank)]
    return e.op("concat", *parts, axis=0), valid


def pads(n: Node, found: Some, vector: Value, valid: Value | None = None) -> list[Dim]:
    """Pads of either sign, as differences of two sizes. ``valid``: whether the axes are."""
    e = n.e
    missing = [i for i, d in enumerate(found) if d is None]
    if len(missing) < len(found):
        vector = e.op("gather", vector, e.weight(np.array(missing, np.int64)), axis=0)
    more, less = e.with_scalar("max", vector, 0), e.op("neg", e.with_scalar("min", vector, 0))
    both = e.op("concat", more, less, axis=0)
    what = "the padding, and what it crops"
    if valid is not None:
        both, what = chosen(n, valid, both, e.scalar(-1, I64)), f"{what} ({AXES})"
    made = n.bound([None] * 2 * len(missing), both, what, "pad")
    signed = iter([add(a, mul(b, -1)) for a, b in zip(made, made[len(missing) :])])
    return [next(signed) if d is None else d for d in found]


def range_size(n: Node, start: Value, limit: Value, step: Value) -> Dim:
    """max(ceil((limit - start) / step), 0); scalars of one dtype."""
    e = n.e
    if start.type.dtype.is_float:
        quotient = e.op("ceil", e.map("div", e.map("sub", limit, start), step))
        count = e.cast(e.with_scalar("max", quotient, 0), I64)
    else:
        count = _whole_steps(n, *(e.cast(v, I64) for v in (start, limit, step)))
    count = chosen(n, e.with_scalar("eq", step, 0), e.scalar(-1, I64), count)
    what = "the length of the range (-1 where its step is 0)"
    return n.bound([None], e.reshape(count, (1,)), what, "range")[0]


def _whole_steps(n: Node, start: Value, limit: Value, step: Value) -> Value:
    """:func:`range_size` of i64. Two of them may be a u64 apart; what no i64 can count gives the
    largest."""
    e = n.e
    up = e.with_scalar("gt", step, 0)
    low, high = chosen(n, up, start, limit), chosen(n, up, limit, start)
    size = e.cast(chosen(n, up, step, e.op("neg", step)), U64)
    span = e.map("sub", e.cast(high, U64), e.cast(low, U64))
    count = e.with_scalar("add", e.map("floordiv", e.with_scalar("sub", span, 1), size), 1)
    count = e.cast(e.with_scalar("min", count, (1 << 63) - 1), I64)
    return chosen(n, e.map("gt", high, low), count, e.scalar(0, I64))


def halves(more: Dim) -> tuple[Dim, Dim]:
    """``more`` elements (or fewer, if negative) in two parts, the first the smaller in size."""
    lo = add(floordiv(maximum(more, 0), 2), mul(floordiv(maximum(mul(more, -1), 0), 2), -1))
    return lo, add(more, mul(lo, -1))

