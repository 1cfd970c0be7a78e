"""Branches: decided at compile time where they can be, else both are compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
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
from cuvil.frontends.onnx.node import Item, Node, Refused
from cuvil.frontends.onnx.table_flex import DOMAIN as FLEX
from cuvil.frontends.onnx.table_flex import flex_attention as flex
from cuvil.frontends.onnx.table_loop import LOOPS
from cuvil.frontends.onnx.table_scan import SCANS
from cuvil.ir.core import Value
from cuvil.ir.regions import Region
from cuvil.ir.types import BOOL
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
    made = [_branch(n, inline, graph, sizes is not None) for graph in branches]
    if (made[0] is None and made[1] is None) or (sizes is None and None in made):
        return [None] * len(n.outputs)
    why = "the other branch can't be compiled"
    if made[0] is not None and made[1] is not None:
        fault = unlike(made[0].forms, made[1].forms, made[0].values, made[1].values)
        if fault is None:
            return _joined(n, inline, branches, [made[0], made[1]])
        why = f"its branches differ: {fault}"
    if sizes is None:
        raise Refused(why, "let both branches give the same kind of result")
    del inline.problems[problems:]
    first = made[1] is None or (made[0] is not None and sizes.relation != "!=")
    return _only(n, inline, branches[0 if first else 1], sizes, first, why)


class _Branch:
    """A closed region, and what it gives."""

    def __init__(self, region: Region, values: list[Value], forms: list[Form]) -> None:
        self.region = region
        self.values = values
        self.forms = forms

def _branch(n: Node, inline: Inline, graph: Any, by_size: bool) -> _Branch | None:
    """None where it can't be translated. Where sizes decide, a branch that contradicts itself is
    one that is not meant to be taken."""
    try:
        with n.e.region() as region:
            values, forms = flatten(inlined(inline, graph, {}))
            n.e.close(values)
    except Lost:
        return None
    except InvalidModelError:
        if not by_size:
            raise
        return None
    return _Branch(region, values, forms)


def _joined(
    n: Node, inline: Inline, graphs: Sequence[Any], made: Sequence[_Branch]
) -> list[Item]:
    flag = n.e.reshape(n.e.cast(n[0], BOOL), ())
    bodies = [functools.partial(_tensors, inline, graph) for graph in graphs]
    found = joined(n.e, flag, bodies, [(b.region, b.values) for b in made])
    return rebuild(found, made[0].forms)


def _tensors(inline: Inline, graph: Any) -> list[Value]:
    return flatten(inlined(inline, graph, {}))[0]


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
