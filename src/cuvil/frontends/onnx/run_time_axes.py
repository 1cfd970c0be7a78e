"""Axes that are data: what an operator makes of them, chosen when the model runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from cuvil.frontends.branches import Body, filled, joined
from cuvil.frontends.onnx.node import Node
from cuvil.frontends.onnx.run_time import AXES, chosen, valid_axes
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim


def _if(n: Node, flag: Value, yes: Body, no: Body) -> list[Value]:
    bodies = [yes, no]
    return joined(n.e, flag, bodies, [filled(n.e, body) for body in bodies])


def along(
    n: Node, index: int, rank: int, made: Callable[[int], Value], count: int | None = None
) -> Value:
    """What ``made`` gives for the axis in an input: for one that is data, a branch for each of the
    first ``count`` axes (all of ``rank`` without it)."""
    count = rank if count is None else count
    (found,) = n.some(index, "the axis")
    if isinstance(found, int):
        return made(n.count(found, rank))
    e, given = n.e, n.vector(index)
    front = chosen(n, e.with_scalar("lt", given, 0), e.with_scalar("add", given, rank), given)
    (axis,) = n.bound([None], front, f"the axis, counted from the front of {rank}", "axis")
    e.context.require(axis, "<", count, f"{n.op}: the axis is one of the tensor's")
    place = e.dims([axis], scalar=True)

    def body(i: int) -> list[Value]:
        if i == count - 1:
            return [made(i)]
        return _if(n, e.with_scalar("eq", place, i), lambda: [made(i)], lambda: body(i + 1))

    return body(0)[0]


def _mask(n: Node, index: int, rank: int) -> Value:
    """Which of ``rank`` axes are among those in an input: [rank] bools, checked."""
    e, axes = n.e, n.vector(index)
    valid = valid_axes(n, axes, rank, [])
    code = e.reshape(chosen(n, valid, e.scalar(0, I64), e.scalar(-1, I64)), (1,))
    (fault,) = n.bound([None], code, f"whether the axes are right ({AXES})", "axes")
    e.context.require(fault, "==", 0, f"{n.op}: each axis is one of the tensor's")
    front = chosen(n, e.with_scalar("lt", axes, 0), e.with_scalar("add", axes, rank), axes)
    line = e.op("iota", shape=(1, rank), axis=1, dtype=I64)
    hits = e.map("eq", e.unsqueeze(front, 1), line)
    return e.op("reduce_any", hits, axes=(0,), keepdims=False)


def _at(n: Node, mask: Value, axis: int) -> Value:
    return n.e.reshape(n.e.slice(mask, 0, axis, axis + 1), ())


def reduced(n: Node, x: Value, keep: bool, over: Callable[[Value, int], Value]) -> Value:
    """``over`` one axis after the other of those in input 1; it keeps the axis. Without any, all
    are reduced, unless an attribute says otherwise."""
    mask, count = _mask(n, 1, x.type.rank), n[1].type.elements
    if not isinstance(count, int) and not n.integer("noop_with_empty_axes", 0):
        none = n.e.with_scalar("eq", n.e.dims([count], scalar=True), 0)
        mask = n.e.map("or", mask, none)
    for axis in range(x.type.rank):
        made, same = functools.partial(_one, over, x, axis), functools.partial(list, [x])
        x = _if(n, _at(n, mask, axis), made, same)[0]
    return x if keep else squeezed(n, x, 1)


def _one(over: Callable[[Value, int], Value], x: Value, axis: int) -> list[Value]:
    return [over(x, axis)]


def squeezed(n: Node, x: Value, index: int) -> Value:
    """Without the axes in an input, whose sizes are 1."""
    e, rank = n.e, x.type.rank
    count = n.size(n[index].type.shape or (1,), 0, "the number of axes")
    kept = e.op("not", _mask(n, index, rank))
    place = e.with_scalar("sub", e.op("cumsum", e.cast(kept, I64), axis=0), 1)
    line = e.op("iota", shape=(1, rank - count), axis=1, dtype=I64)
    here = e.map("and", e.map("eq", e.unsqueeze(place, 1), line), e.unsqueeze(kept, 1))
    sizes = e.unsqueeze(e.dims(x.type.shape), 1)
    found = chosen(n, here, sizes, e.scalar(0, I64))
    found = e.op("reduce_sum", found, axes=(0,), keepdims=False)
    return e.reshape(x, n.bound([None] * (rank - count), found, "the sizes that are left"))


def unsqueezed(n: Node, x: Value, index: int) -> Value:
    """With new axes of size 1 where an input says."""
    e = n.e
    rank = x.type.rank + n.size(n[index].type.shape or (1,), 0, "the number of axes")
    mask = _mask(n, index, rank)
    place = e.op("cumsum", e.cast(e.op("not", mask), I64), axis=0)
    own: Sequence[Dim] = [1, *x.type.shape]
    sizes = e.op("gather", e.dims(own), place, axis=0)
    found = chosen(n, mask, e.scalar(1, I64), sizes)
    return e.reshape(x, n.bound([None] * rank, found, "the sizes with the new axes"))
