"""Sequences whose length is found at run time, and places in sequences that data tells.

Such a sequence is one tensor, its items stacked: what ONNX does to sequences is arithmetic on
indices of rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from cuvil.frontends.onnx.node import ItemList, LateList, Node, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import I64, TensorType
from cuvil.sym.expr import Dim, add, mul

_UNLIKE = "let all its tensors have one shape, or give the number of trips at compile time"


def stacked_list(
    n: Node, item: ItemList | LateList, like: TensorType | None = None,
    unknown: Iterable[str] = (),
) -> LateList:
    """The sequence as one of run-time length. ``like`` is the type of the tensors that an empty one
    is to have; ``unknown`` are symbols that do not exist here. Raises Refused for unlike tensors.
    """  # fmt: skip
    if isinstance(item, LateList):
        return item
    if item.items:
        first = item.items[0].type
        for value in item.items[1:]:
            same_item(n, first, value.type)
        rows = [n.e.unsqueeze(v, 0) for v in item.items]
        return LateList(rows[0] if len(rows) == 1 else n.e.op("concat", *rows, axis=0))
    if like is None:
        raise Refused("nothing tells the type of the tensors of an empty sequence", _UNLIKE)
    if like.symbols() & set(unknown):
        raise Refused(
            f"each trip finds the size of the tensors that go into a sequence: {like}", _UNLIKE
        )
    zero = n.e.scalar(0, like.dtype)
    return LateList(n.e.broadcast(zero, (0, *like.shape)))


def item_type(item: ItemList | LateList) -> TensorType | None:
    """The type of a sequence's tensors; None for an empty one."""
    if isinstance(item, LateList):
        return item.item
    return item.items[0].type if item.items else None


def same_item(n: Node, a: TensorType, b: TensorType) -> None:
    """Raises Refused unless tensors of both types may stand in one sequence of run-time length;
    sizes that may be equal are required to be."""
    if a.dtype == b.dtype and a.rank == b.rank:
        if n.e.same_type(a, b):
            return
        pairs = list(zip(a.shape, b.shape, strict=True))
        gaps = [n.e.simplify(add(x, mul(y, -1))) for x, y in pairs]
        if not any(isinstance(gap, int) and gap for gap in gaps):
            for x, y in pairs:
                n.e.context.require(x, "==", y, f"{n.op}: tensors of one sequence are alike")
            return
    raise Refused(f"a sequence of run-time length holds {a} and {b}", _UNLIKE)


def _checked(n: Node, at: Value, count: Dim) -> Value:
    """A place in -count .. count - 1 counted from the front; another one fails when it runs."""
    place = n.e.cast(n.e.reshape(at, ()), I64)
    return n.e.op("gather", _line(n, count), place, axis=0)


def _line(n: Node, count: Dim) -> Value:
    return n.e.op("iota", shape=(count,), axis=0, dtype=I64)


def at(n: Node, stack: Value, place: Value) -> Value:
    """The tensor at a place that data tells."""
    return n.e.op("gather", stack, n.e.cast(n.e.reshape(place, ()), I64), axis=0)


def inserted(n: Node, stack: Value, value: Value, place: Value | None) -> Value:
    """The stack with one tensor more, at the end or before a place."""
    e, count = n.e, stack.type.shape[0]
    longer = e.op("concat", stack, e.unsqueeze(value, 0), axis=0)
    if place is None:
        return longer
    # In -count .. count: a place below the first must not count from the back of what is longer.
    asked = e.cast(e.reshape(place, ()), I64)
    total, zero = e.dims([count], scalar=True), e.scalar(0, I64)
    spot = e.op("select", e.op("lt", asked, zero), e.op("add", asked, total), asked)
    outside = e.with_scalar("add", total, 1)
    spot = e.op("select", e.op("lt", spot, zero), outside, spot)
    spot = _checked(n, spot, e.simplify(add(count, 1)))
    line = _line(n, longer.type.shape[0])
    after = e.map("select", e.map("gt", line, spot), e.with_scalar("sub", line, 1), line)
    rows = e.map("select", e.map("eq", line, spot), total, after)
    return e.op("gather", longer, rows, axis=0)


def erased(n: Node, stack: Value, place: Value | None) -> Value:
    """The stack with one tensor less: the last, or the one at a place."""
    e, count = n.e, stack.type.shape[0]
    n.e.context.require(count, ">=", 1, f"{n.op}: the sequence is not empty")
    if place is None:
        return e.slice(stack, 0, 0, e.simplify(add(count, -1)))
    spot = _checked(n, place, count)
    line = _line(n, e.simplify(add(count, -1)))
    rows = e.map("select", e.map("ge", line, spot), e.with_scalar("add", line, 1), line)
    return e.op("gather", stack, rows, axis=0)


def taken_apart(n: Node, stack: Value, count: int) -> ItemList:
    """The sequence of a stack whose length is known."""
    rows = [n.e.op("gather", stack, n.e.scalar(i, I64), axis=0) for i in range(count)]
    return ItemList(tuple(rows))


def joined(n: Node, stack: Value, axis: int, new: bool) -> Value:
    """All tensors joined along an axis, a new one or one of theirs."""
    rank = stack.type.rank
    moved = n.e.transpose(stack, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    if new:
        return moved
    shape = list(moved.type.shape)
    shape[axis : axis + 2] = [n.e.simplify(mul(shape[axis], shape[axis + 1]))]
    return n.e.reshape(moved, shape)
