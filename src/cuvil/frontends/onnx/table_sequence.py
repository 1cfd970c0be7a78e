"""Sequences and optionals, taken apart at capture: a sequence is the list of its tensors, an
optional what it holds, or nothing."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import late_lists
from cuvil.frontends.onnx.late_lists import item_type, same_item, stacked_list
from cuvil.frontends.onnx.node import Handler, Item, ItemList, LateList, Node, Nothing
from cuvil.frontends.onnx.table_movement import part
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL
from cuvil.sym.expr import Dim, Expr, add, floordiv, mod


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


def _known_place(n: Node, index: int) -> bool:
    """Whether a place is left out, or known at compile time."""
    return not n.has(index) or n.knowledge.dims(n[index]) is not None


def _listed(n: Node) -> ItemList | LateList:
    item = n.inputs[0] if n.inputs else None
    return item if isinstance(item, LateList) else ItemList(n.sequence(0))


def _stack(n: Node, item: ItemList | LateList) -> Value:
    """The tensors of a sequence one on the other."""
    return stacked_list(n, item).stack


def _at(n: Node) -> Value:
    """Where the position is data and all tensors have one type, it picks from their stack."""
    found = _listed(n)
    if isinstance(found, ItemList) and _known_place(n, 1):
        items = found.items
        return items[_place(n, 1, len(items), len(items))]
    if isinstance(found, ItemList) and not found.items:
        raise InvalidModelError("SequenceAt: the sequence is empty")
    return late_lists.at(n, _stack(n, found), n[1])


def _insert(n: Node) -> ItemList | LateList:
    found, value = _listed(n), n[1]
    if isinstance(found, ItemList) and _known_place(n, 2):
        items = list(found.items)
        at = _place(n, 2, len(items), len(items) + 1) if n.has(2) else len(items)
        items.insert(at, value)
        return ItemList(tuple(items))
    kind = item_type(found)
    if kind is not None:
        same_item(n, kind, value.type)
    stack = stacked_list(n, found, value.type).stack
    made = late_lists.inserted(n, stack, value, n.optional(2))
    if isinstance(found, ItemList):
        return late_lists.taken_apart(n, made, len(found.items) + 1)
    return LateList(made)


def _erase(n: Node) -> ItemList | LateList:
    found = _listed(n)
    if isinstance(found, ItemList):
        items = list(found.items)
        if not items:
            raise InvalidModelError("SequenceErase: the sequence is empty")
        if _known_place(n, 1):
            del items[_place(n, 1, len(items), len(items)) if n.has(1) else len(items) - 1]
            return ItemList(tuple(items))
    made = late_lists.erased(n, _stack(n, found), n.optional(1))
    if isinstance(found, ItemList):
        return late_lists.taken_apart(n, made, len(found.items) - 1)
    return LateList(made)


def _length(n: Node) -> Value:
    found = _listed(n)
    count = len(found.items) if isinstance(found, ItemList) else found.stack.type.shape[0]
    return n.e.dims([count], scalar=True)


def _concat(n: Node) -> Value:
    found = _listed(n)
    new = bool(n.integer("new_axis", 0))
    kind = item_type(found)
    if kind is None:
        raise InvalidModelError("ConcatFromSequence: the sequence is empty")
    axis = n.axis("axis", None, kind.rank + new)
    if isinstance(found, LateList):
        n.e.context.require(
            found.stack.type.shape[0], ">=", 1, "ConcatFromSequence: the sequence is not empty"
        )
        return late_lists.joined(n, found.stack, axis, new)
    items = list(found.items)
    if new:
        items = [n.e.unsqueeze(v, axis) for v in items]
    return items[0] if len(items) == 1 else n.e.op("concat", *items, axis=axis)


def _split(n: Node) -> ItemList | LateList:
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
        chunk = n.sizes(1, "the size of a part")[0] if n.has(1) else 1
        if isinstance(whole, Expr) or isinstance(chunk, Expr):
            return _split_late(n, axis, chunk)
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


def _split_late(n: Node, axis: int, chunk: Dim) -> LateList:
    """So many parts as come out when the model runs: all equal, which is checked."""
    x, e = n[0], n.e
    shape = list(x.type.shape)
    if isinstance(chunk, int) and chunk < 1:
        raise InvalidModelError(f"SplitToSequence: parts of {chunk} elements")
    what = "SplitToSequence: parts whose number is found when it runs are equal"
    e.context.require(chunk, ">=", 1, "SplitToSequence: parts have elements")
    if chunk != 1:
        e.context.require(mod(shape[axis], chunk), "==", 0, what)
    count = e.simplify(floordiv(shape[axis], chunk))
    moved = e.transpose(x, [axis, *(i for i in range(len(shape)) if i != axis)])
    rest = [d for i, d in enumerate(shape) if i != axis]
    parts = e.reshape(moved, (count, chunk, *rest))
    order = [0, *range(2, axis + 2), 1, *range(axis + 2, len(shape) + 1)]
    parts = e.transpose(parts, order)
    if not n.has(1) and not n.integer("keepdims", 1):
        parts = e.squeeze(parts, [axis + 1])
    return LateList(parts)


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
