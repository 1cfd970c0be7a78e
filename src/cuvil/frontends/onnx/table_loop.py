"""Loops: written out where the number of trips is known and small, else loops at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuvil.frontends.onnx.bodies import Inline, Lost, attempt, inlined
from cuvil.frontends.onnx.graph import subgraphs
from cuvil.frontends.onnx.loop_run_time import ENDLESS, NeverEnds, at_run_time, tensor, truth
from cuvil.frontends.onnx.node import FIXED, Item, Node, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL
from cuvil.sym.expr import symbols_of

Rule = Callable[[Node, Inline], Sequence[Item | None]]
MAX_STEPS = 1024
# Nor is it written out further once it has come to so many ops: that would take minutes.
_MOST_OPS = 20_000
# A loop whose trips come to at most so many nodes is written out: it then optimises as a whole.
FEW_NODES = 128
FEW_STEPS = 8


class _Undecided(Refused):
    """Data decides whether there is another trip, or there are too many to write them out."""


TOO_LONG = (f"written out it comes to more than {_MOST_OPS} ops", "use fewer trips")


def too_long(n: Node, made: int) -> bool:
    """Whether a loop that was begun after ``made`` ops has come to too many."""
    return n.e.builder.made - made > _MOST_OPS


def count_nodes(graph: Any) -> int:
    """Nodes of a graph and of those inside."""
    return sum(1 + sum(map(count_nodes, subgraphs(node))) for node in graph.node)


def _loop(n: Node, inline: Inline) -> Sequence[Item | None]:
    """Loop-1"""
    body = n.attrs["body"]
    limit = n.knowledge.dims(n[0]) if n.has(0) else [ENDLESS]
    trips = limit[0] if limit else None
    start = truth(n, n[1]) if n.has(1) else True
    if trips == ENDLESS and not n.has(1):  # what the body says of its condition is ignored
        raise NeverEnds
    size = max(1, count_nodes(body))
    if isinstance(trips, int) and start is not None:
        few = max(FEW_STEPS, FEW_NODES // size)
        if trips <= few or trips == ENDLESS:
            try:
                with attempt(n, inline):
                    return _written_out(n, inline, trips, start, few)
            except _Undecided:
                pass
    try:
        with attempt(n, inline):
            return at_run_time(n, inline, trips, start)
    except NeverEnds:
        raise
    except Refused:
        if not isinstance(trips, int) or start is None:
            raise
    return _written_out(n, inline, trips, start, MAX_STEPS)


def _written_out(
    n: Node, inline: Inline, trips: int, going: bool, most: int
) -> Sequence[Item | None]:
    """The body once for each trip. Raises _Undecided where data decides how many there are."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    carried: list[Item | None] = list(n.inputs[2:])
    scans: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    step, made = 0, n.e.builder.made
    while going and step < trips:
        if step == most:
            raise _Undecided(f"it runs more than {most} times", "use fewer trips")
        if step and too_long(n, made):
            raise _Undecided(*TOO_LONG)
        counter = n.e.dims([step], scalar=True)
        given = dict(zip(names, [counter, n.e.scalar(True, BOOL), *carried], strict=True))
        condition, *rest = inlined(inline, body, given)
        carried = list(rest[: len(carried)])
        for scan, item in zip(scans, rest[len(carried) :], strict=True):
            scan.append(tensor(n, item))
        known = truth(n, tensor(n, condition)) if n.has(1) else True
        if known is None:
            raise _Undecided("how often it runs is not known at compile time", FIXED)
        going = known
        step += 1
    if not step and scans:
        given = dict(zip(names, [n.e.dims([0], scalar=True), n.e.scalar(True, BOOL), *carried],
                         strict=True))  # fmt: skip
        return [*carried, *_no_rows(n, inline, given, 1 + len(carried))]
    return [*carried, *(stacked_rows(n, scan, 0) for scan in scans)]


def _no_rows(
    n: Node, inline: Inline, given: Mapping[str, Item | None], first: int
) -> list[Value]:
    """Stacks of no rows, of the types that the body's outputs from ``first`` on would have: a trip
    is translated and forgotten, with what it requires."""
    context = n.e.context
    known, symbols = len(context.constraints), set(context.symbols)
    with attempt(n, inline):
        items = inlined(inline, n.attrs["body"], given)
        types = [tensor(n, item).type for item in items[first:]]
        if not all(symbols_of(d) <= symbols for kind in types for d in kind.shape):
            raise Refused("it runs no times, so the sizes of its scan outputs are unknown")
    del context.constraints[known:]
    n.e.discarded = True
    return [n.e.broadcast(n.e.scalar(0, kind.dtype), (0, *kind.shape)) for kind in types]


def stacked_rows(n: Node, values: Sequence[Value], axis: int) -> Value:
    rows = [n.e.unsqueeze(v, axis) for v in values]
    return rows[0] if len(rows) == 1 else n.e.op("concat", *rows, axis=axis)


def or_lost(rule: Rule) -> Rule:
    """The rule; where a node of its body has no translation, its outputs stand for nothing."""

    def apply(n: Node, inline: Inline) -> Sequence[Item | None]:
        try:
            return rule(n, inline)
        except Lost:
            return [None] * len(n.outputs)

    return apply


LOOPS: Mapping[tuple[str, str], Rule] = {
    ("", "Loop"): or_lost(_loop),
}
