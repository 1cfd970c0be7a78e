"""Sequences and optionals, taken apart at capture: a sequence is the list of its tensors, an
optional what it holds, or nothing."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import FIXED, Handler, Item, ItemList, Node, Nothing, Refused
from cuvil.frontends.onnx.table_movement import part
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL
from cuvil.sym.expr import Dim, Expr, add


def _place(n: Node, index: int, count: int, ends: int) -> int:
    """A position in -count .. ends - 1, counted from the front."""
    at = n.static(index, "the position in the sequence")[0]
    if not -count <= at < ends:
        raise InvalidModelError(f"{n.op}: position {at} of a sequence of {count}")
    return at + count if at < 0 else at


def _construct(n: Node) -> ItemList:
    return ItemList(tuple(n.values()))


def _empty(n: Node) -> ItemList:
    return ItemList(())


def _at(n: Node) -> Value:
    """Where the position is data and all tensors have one type, it picks from their stack."""
    items = n.sequence(0)
    if n.knowledge.dims(n[1]) is not None:
        return items[_place(n, 1, len(items), len(items))]
    if not items or any(v.type != items[0].type for v in items):
        raise Refused("the position in a sequence of unlike tensors depends on data", FIXED)
    stack = n.e.op("concat", *(n.e.unsqueeze(v, 0) for v in items), axis=0)
    return n.e.op("gather", stack, n.e.reshape(n[1], ()), axis=0)


def _insert(n: Node) -> ItemList:
    items = list(n.sequence(0))
    at = _place(n, 2, len(items), len(items) + 1) if n.has(2) else len(items)
    items.insert(at, n[1])
    return ItemList(tuple(items))


def _erase(n: Node) -> ItemList:
    items = list(n.sequence(0))
    del items[_place(n, 1, len(items), len(items)) if n.has(1) else len(items) - 1]
    return ItemList(tuple(items))


def _length(n: Node) -> Value:
    return n.e.dims([len(n.sequence(0))], scalar=True)


def _concat(n: Node) -> Value:
    items = list(n.sequence(0))
    if not items:
        raise InvalidModelError("ConcatFromSequence: the sequence is empty")
    new = bool(n.integer("new_axis", 0))
    axis = n.axis("axis", None, items[0].type.rank + new)
    if new:
        items = [n.e.unsqueeze(v, axis) for v in items]
    return items[0] if len(items) == 1 else n.e.op("concat", *items, axis=axis)


def _split(n: Node) -> ItemList:
    """Equal parts by a scalar (the last may be smaller), given parts by a vector, single
    elements without either (SplitToSequence-11)."""
    x, e = n[0], n.e
    axis = n.axis("axis", 0, x.type.rank)
    whole = x.type.shape[axis]
    sizes: list[Dim]
    if n.has(1) and n[1].type.rank == 1:
        sizes = n.sizes(1, "the sizes of the parts")
        total: Dim = 0
        for size in sizes:
            total = add(total, size)
        e.context.require(total, "==", whole, "SplitToSequence: the parts make up the whole")
    else:
        chunk = n.static(1, "the size of a part")[0] if n.has(1) else 1
        if isinstance(whole, Expr):
            raise Refused("the number of parts is symbolic", "give that dimension a size")
        if chunk < 1:
            raise InvalidModelError(f"SplitToSequence: parts of {chunk} elements")
        sizes = [min(chunk, whole - i) for i in range(0, whole, chunk)]
    items: list[Value] = []
    at: Dim = 0
    for size in sizes:
        piece = part(n, x, axis, at, size)
        if not n.has(1) and not n.integer("keepdims", 1):
            piece = e.squeeze(piece, [axis])
        items.append(piece)
        at = e.simplify(add(at, size))
    return ItemList(tuple(items))


def _optional(n: Node) -> Item:
    """Optional-15: what it is given, or nothing."""
    item = n.inputs[0] if n.inputs else None
    return Nothing() if item is None else item


def _has_element(n: Node) -> Value:
    """OptionalHasElement-18"""
    item = n.inputs[0] if n.inputs else None
    return n.e.scalar(item is not None and not isinstance(item, Nothing), BOOL)


def _element(n: Node) -> Item:
    """OptionalGetElement-18"""
    item = n.inputs[0] if n.inputs else None
    if item is None or isinstance(item, Nothing):
        raise InvalidModelError("OptionalGetElement: the optional holds nothing")
    return item


TABLE: dict[str, Handler] = {
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceAt": _at,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceLength": _length,
    "ConcatFromSequence": _concat,
    "SplitToSequence": _split,
    "Optional": _optional,
    "OptionalGetElement": _element,
    "OptionalHasElement": _has_element,
}
