"""Branches and bodies: what they give as flat tensors, and how two of them are joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from cuvil.errors import UnsupportedNode
from cuvil.frontends.onnx.knowledge import Knowledge
from cuvil.frontends.onnx.node import Item, ItemList, LateList, Node, Nothing, Refused
from cuvil.ir.core import Value
from cuvil.sym.constraint import Constraint

NEGATED = {"==": "!=", "!=": "==", "<=": ">", "<": ">=", ">=": "<", ">": "<="}
_COMPARISONS = {"eq": "==", "ne": "!=", "le": "<=", "lt": "<", "ge": ">=", "gt": ">"}


class Inline(Protocol):
    """Translates a node's graph where the emitter stands, with values for its inputs."""

    @property
    def problems(self) -> list[UnsupportedNode]:
        """What could not be translated so far."""
        ...

    def first(self, usual: bool) -> bool:
        """Whether the first of two branches is the one to compile, where only one can be."""
        ...

    def __call__(self, graph: Any, given: Mapping[str, Item | None]) -> list[Item | None]: ...


class Lost(Exception):
    """A graph has nodes without a translation; they are listed in ``Inline.problems``."""


def inlined(inline: Inline, graph: Any, given: Mapping[str, Item | None]) -> list[Item]:
    """The items that a graph gives. Raises Lost where one is not there."""
    items = inline(graph, given)
    if any(item is None for item in items):
        raise Lost
    return [item for item in items if item is not None]


@contextmanager
def attempt(n: Node, inline: Inline) -> Iterator[None]:
    """On Refused or Lost, what was found out meanwhile is forgotten; Lost becomes Refused.

    What was emitted is dropped as dead code in the end.
    """
    problems, constraints = len(inline.problems), n.e.context.constraints
    known = len(constraints)
    try:
        yield
    except (Refused, Lost) as error:
        del constraints[known:]
        n.e.discarded = True
        found = inline.problems[problems:]
        del inline.problems[problems:]
        if isinstance(error, Refused):
            raise
        first = found[0] if found else UnsupportedNode("its body")
        raise Refused(f"in {first.where or first.op}: {first.reason}", first.hint) from None


@dataclass(frozen=True)
class Form:
    """What an item is: a tensor (-1), a sequence of so many, one whose length is found at run time
    (-2), or nothing (None)."""

    count: int | None = -1

    @property
    def listed(self) -> bool:
        """Whether it is a sequence."""
        return self.count is not None and self.count != -1


LATE = Form(-2)


def flatten(items: Sequence[Item]) -> tuple[list[Value], list[Form]]:
    """The tensors of items in order, and what brings the items back."""
    values: list[Value] = []
    forms = []
    for item in items:
        if isinstance(item, Nothing):
            forms.append(Form(None))
        elif isinstance(item, ItemList):
            values += item.items
            forms.append(Form(len(item.items)))
        elif isinstance(item, LateList):
            values.append(item.stack)
            forms.append(LATE)
        elif isinstance(item, Value):
            values.append(item)
            forms.append(Form())
        else:
            raise Refused("strings or maps go into it or out of it", "let it work on numbers")
    return values, forms


def rebuild(values: Sequence[Value], forms: Sequence[Form]) -> list[Item]:
    """The inverse of :func:`flatten`."""
    rest = iter(values)
    items: list[Item] = []
    for form in forms:
        if form.count is None:
            items.append(Nothing())
        elif form == LATE:
            items.append(LateList(next(rest)))
        elif form.count < 0:
            items.append(next(rest))
        else:
            items.append(ItemList(tuple(next(rest) for _ in range(form.count))))
    return items


def size_condition(knowledge: Knowledge, value: Value) -> Constraint | None:
    """The relation between sizes that a condition stands for; None if data decides it."""
    op = value.op
    if op is None:
        return None
    if op.short in ("reshape", "cast") and op.operands[0].type.dtype == value.type.dtype:
        return size_condition(knowledge, op.operands[0])
    if op.short == "not":
        inner = size_condition(knowledge, op.operands[0])
        if inner is None:
            return None
        return Constraint(inner.left, NEGATED[inner.relation], inner.right, inner.origin)
    if op.short not in _COMPARISONS:
        return None
    sides = [knowledge.dims(v) for v in op.operands]
    if any(side is None or len(side) != 1 for side in sides):
        return None
    (left,), (right,) = sides  # type: ignore[misc]
    return Constraint(left, _COMPARISONS[op.short], right, f"the branch at {op.loc}")


def assumed(n: Node, condition: Constraint) -> bool | None:
    """Whether the constraints so far decide a condition."""
    known = n.e.context.constraints
    if condition in known:
        return True
    opposite = Constraint(condition.left, NEGATED[condition.relation], condition.right)
    return False if opposite in known else None


def unlike(a: Sequence[Form], b: Sequence[Form], x: list[Value], y: list[Value]) -> str | None:
    """Why what two graphs give can't be one item each, or None."""
    if list(a) != list(b):
        return "one gives sequences or optional values where the other gives something else"
    for i, (v, w) in enumerate(zip(x, y, strict=True)):
        if v.type.dtype != w.type.dtype:
            return f"output {i} is {v.type.dtype} in one and {w.type.dtype} in the other"
        if v.type.rank != w.type.rank:
            return f"output {i} has rank {v.type.rank} in one and {w.type.rank} in the other"
    return None
