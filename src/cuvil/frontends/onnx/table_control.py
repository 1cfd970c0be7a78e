"""Branches: decided at compile time where they can be, else both are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuvil.errors import InvalidModelError
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
from cuvil.ir.control import STEP, requirements
from cuvil.ir.core import Value
from cuvil.ir.regions import Region
from cuvil.ir.types import BOOL, TensorType
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim

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
            return _joined(n, inline, branches, made[0], made[1])
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

    @property
    def types(self) -> list[TensorType]:
        return [v.type for v in self.values]


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
    n: Node, inline: Inline, graphs: Sequence[Any], a: _Branch, b: _Branch
) -> Sequence[Item | None]:
    """Both branches in one op. Where sizes agree only under what holds in a branch, the result
    has those of the other branch; where they don't agree, it has sizes found at run time."""
    types: list[TensorType] = []
    apart: dict[int, list[int]] = {}
    for i, (x, y) in enumerate(zip(a.types, b.types, strict=True)):
        if n.e.same_type(x, y, requirements(a.region.block)):
            types.append(y)
        elif n.e.same_type(x, y, requirements(b.region.block)):
            types.append(x)
        else:
            apart[i] = [
                k for k, (p, q) in enumerate(zip(x.shape, y.shape, strict=True)) if p != q
            ]
            types.append(x)
    flag = n.e.reshape(n.e.cast(n[0], BOOL), ())
    if not apart:
        return rebuild(n.e.branch(flag, [a.region, b.region], types), a.forms)
    sizes = _sizes(n, inline, graphs, flag, apart)
    regions = []
    for graph in graphs:
        with n.e.region() as region:
            values = flatten(inlined(inline, graph, {}))[0]
            for (i, axis), size in sizes.items():
                have = values[i].type.shape[axis]
                n.e.context.require(have, "==", size, "the size that the branch gives")
            n.e.close(values)
        regions.append(region)
    for (i, axis), size in sizes.items():
        shape = types[i].shape
        types[i] = types[i].with_shape((*shape[:axis], size, *shape[axis + 1 :]))
    return rebuild(n.e.branch(flag, regions, types), a.forms)


def _sizes(
    n: Node, inline: Inline, graphs: Sequence[Any], flag: Value, apart: dict[int, list[int]]
) -> dict[tuple[int, int], Dim]:
    """Late symbols for the sizes (output, axis) in which the branches differ: each branch once
    more, as far as its sizes need it."""
    places = [(i, axis) for i, axes in apart.items() for axis in axes]
    regions = []
    for graph in graphs:
        with n.e.region() as region:
            values = flatten(inlined(inline, graph, {}))[0]
            found = [n.e.dims([values[i].type.shape[axis]], scalar=True) for i, axis in places]
            n.e.close(found)
        regions.append(region)
    names = [f"branch_{i}_{axis}" for i, axis in places]
    values = [n.e.reshape(v, (1,)) for v in n.e.branch(flag, regions, [STEP] * len(places))]
    together = values[0] if len(values) == 1 else n.e.op("concat", *values, axis=0)
    symbols = n.e.bind(together, names, "the size that a branch gives")
    return dict(zip(places, symbols, strict=True))


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
