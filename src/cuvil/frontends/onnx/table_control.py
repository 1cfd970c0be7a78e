"""Branches: decided at compile time where they can be, else both are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuvil.errors import InvalidModelError
from cuvil.frontends.branches import joined
from cuvil.frontends.onnx.bodies import (
    NEGATED,
    Form,
    Inline,
    Lost,
    assumed,
    flatten,
    inlined,
    rebuild,
    size_condition,
    unlike,
)
from cuvil.frontends.onnx.late_lists import item_type, stacked_list
from cuvil.frontends.onnx.node import Item, ItemList, LateList, Node, Refused
from cuvil.frontends.onnx.table_flex import DOMAIN as FLEX
from cuvil.frontends.onnx.table_flex import flex_attention as flex
from cuvil.frontends.onnx.table_loop import LOOPS
from cuvil.frontends.onnx.table_scan import SCANS
from cuvil.ir.core import Value
from cuvil.ir.late import binders
from cuvil.ir.regions import Region
from cuvil.ir.types import BOOL, TensorType
from cuvil.sym.constraint import Constraint

Control = Callable[[Node, Inline], Sequence[Item | None]]


def _if(n: Node, inline: Inline) -> Sequence[Item | None]:
    branches = [n.attrs["then_branch"], n.attrs["else_branch"]]
    condition = n[0]
    known = n.knowledge.dims(condition)
    sizes = size_condition(n.knowledge, condition) if known is None else None
    taken = bool(known[0]) if known else None if sizes is None else assumed(n, sizes)
    if taken is not None:
        return inline(branches[0 if taken else 1], {})
    problems = len(inline.problems)
    bodies = [_Body(n, inline, graph, {}) for graph in branches]
    made = [_branch(body, sizes is not None) for body in bodies]
    if (made[0] is None and made[1] is None) or (sizes is None and None in made):
        return [None] * len(n.outputs)
    why = "the other branch can't be compiled"
    if made[0] is not None and made[1] is not None:
        both = [made[0], made[1]]
        if lists := _lists(made[0], made[1]):
            bodies = [_Body(n, inline, graph, lists) for graph in branches]
            both = [b for body in bodies if (b := _branch(body, False)) is not None]
        fault = unlike(both[0].forms, both[1].forms, both[0].values, both[1].values)
        if fault is None:
            return _joined(n, bodies, both)
        why = f"its branches differ: {fault}"
    if sizes is None:
        raise Refused(why, "let both branches give the same kind of result")
    del inline.problems[problems:]
    first = made[1] is None or (made[0] is not None and inline.first(sizes.relation != "!="))
    return _only(n, inline, branches[0 if first else 1], sizes, first, why)


@dataclass(frozen=True)
class _Branch:
    """A closed region, and what it gives. ``late`` are the symbols that only the region has."""

    region: Region
    items: list[Item]
    values: list[Value]
    forms: list[Form]
    late: set[str]


@dataclass(frozen=True)
class _Body:
    """A branch's graph. ``lists`` are its outputs that are to be sequences of run-time length, and
    the types of their tensors."""

    n: Node
    inline: Inline
    graph: Any
    lists: Mapping[int, tuple[TensorType | None, set[str]]]

    def items(self) -> list[Item]:
        found = inlined(self.inline, self.graph, {})
        for i, (like, late) in self.lists.items():
            item = found[i]
            assert isinstance(item, (ItemList, LateList))
            found[i] = stacked_list(self.n, item, like, late)
        return found

    def tensors(self) -> list[Value]:
        return flatten(self.items())[0]


def _lists(a: _Branch, b: _Branch) -> dict[int, tuple[TensorType | None, set[str]]]:
    """The outputs that are sequences of different lengths."""
    found: dict[int, tuple[TensorType | None, set[str]]] = {}
    for i, (x, y) in enumerate(zip(a.items, b.items, strict=True)):
        lists = isinstance(x, (ItemList, LateList)) and isinstance(y, (ItemList, LateList))
        if lists and a.forms[i] != b.forms[i]:
            kinds = [(item_type(v), z.late) for v, z in ((x, a), (y, b)) if item_type(v)]
            found[i] = kinds[0] if kinds else (None, set())
    return found


def _branch(body: _Body, by_size: bool) -> _Branch | None:
    """None where it can't be translated. Where sizes decide, a branch that contradicts itself is
    one that is not meant to be taken."""
    e = body.n.e
    try:
        with e.region() as region:
            items = body.items()
            values, forms = flatten(items)
            late = set(binders(e.block))
            e.close(values)
    except Lost:
        return None
    except InvalidModelError:
        if not by_size:
            raise
        return None
    return _Branch(region, items, values, forms, late)


def _joined(n: Node, bodies: Sequence[_Body], made: Sequence[_Branch]) -> list[Item]:
    flag = n.e.reshape(n.e.cast(n[0], BOOL), ())
    tensors = [body.tensors for body in bodies]
    found = joined(n.e, flag, tensors, [(b.region, b.values) for b in made])
    return rebuild(found, made[0].forms)


def _only(
    n: Node, inline: Inline, graph: Any, sizes: Constraint, holds: bool, why: str
) -> list[Item | None]:
    """One branch, for the sizes that lead to it; a call with others is refused."""
    relation = sizes.relation if holds else NEGATED[sizes.relation]
    n.e.context.require(sizes.left, relation, sizes.right, f"{n.op}: {why}")
    return inline(graph, {})


CONTROL: Mapping[tuple[str, str], Control] = {
    ("", "If"): _if,
    (FLEX, "FlexAttention"): flex,
    **LOOPS,
    **SCANS,
}
