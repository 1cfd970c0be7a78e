"""Loops: written out where the number of trips is known and small, else loops at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuvil.errors import InvalidModelError
from cuvil.frontends.branches import stacked
from cuvil.frontends.onnx.bodies import (
    Form,
    Inline,
    Lost,
    attempt,
    flatten,
    inlined,
    rebuild,
    unlike,
)
from cuvil.frontends.onnx.graph import subgraphs
from cuvil.frontends.onnx.node import FIXED, Item, Node, Refused
from cuvil.ir.control import FOR, STEP, WHILE
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64, TensorType
from cuvil.sym.expr import Dim, Expr, add, maximum, mul

Rule = Callable[[Node, Inline], Sequence[Item | None]]
MAX_STEPS = 1024
# Nor is it written out further once it has come to so many ops: that would take minutes.
_MOST_OPS = 20_000
# A loop whose trips come to at most so many nodes is written out: it then optimises as a whole.
FEW_NODES = 128
FEW_STEPS = 8
_ENDLESS = (1 << 63) - 1
_CHANGES = "let it keep its shape, or give the number of trips at compile time"


class _Undecided(Refused):
    """Data decides whether there is another trip, or there are too many to write them out."""


class _Endless(Refused):
    """No other translation would end it either."""

    def __init__(self) -> None:
        super().__init__("nothing ends it", "give it a number of trips or a condition")


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
    limit = n.knowledge.dims(n[0]) if n.has(0) else [_ENDLESS]
    trips = limit[0] if limit else None
    start = _truth(n, n[1]) if n.has(1) else True
    if trips == _ENDLESS and not n.has(1):  # what the body says of its condition is ignored
        raise _Endless
    size = max(1, count_nodes(body))
    if isinstance(trips, int) and start is not None:
        few = max(FEW_STEPS, FEW_NODES // size)
        if trips <= few or trips == _ENDLESS:
            try:
                with attempt(n, inline):
                    return _written_out(n, inline, trips, start, few)
            except _Undecided:
                pass
    try:
        with attempt(n, inline):
            return _at_run_time(n, inline, trips, start)
    except _Endless:
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
        known = _truth(n, tensor(n, condition)) if n.has(1) else True
        if known is None:
            raise _Undecided("how often it runs is not known at compile time", FIXED)
        going = known
        step += 1
    if not step and scans:
        raise Refused("it runs no times, so the type of its scan outputs is unknown")
    return [*carried, *(stacked_rows(n, scan, 0) for scan in scans)]


def _at_run_time(
    n: Node, inline: Inline, trips: Dim | None, start: bool | None
) -> Sequence[Item | None]:
    """One ``scf.for``, where nothing but the number of trips ends it, or ``scf.while``.

    A loop that stacks rows must know their number: where data decides it, the trips are counted
    before, by the same loop without its rows.
    """
    if any(item is None for item in n.inputs[2:]):
        raise InvalidModelError(f"{n.op}: an initial value is left out")
    inits, forms = flatten([item for item in n.inputs[2:] if item is not None])
    with n.e.region([STEP, *(v.type for v in inits)]) as region:
        going, values, rows = _trip(n, inline, region.own, inits, forms)
        endless = _truth(n, going) is True
        counted = trips is not None and endless and start is True
        if counted and trips == _ENDLESS:
            raise _Endless
        count = n.e.simplify(maximum(trips, 0)) if counted and trips is not None else 0
        stacks = stack_types(n, rows, count)
        n.e.close([*([] if counted else [going]), *values, *rows])
    types = [v.type for v in inits]
    if not counted and not rows:
        return rebuild(n.e.loop(WHILE, _lead(n), inits, region, types), forms)
    if not counted:
        count = _counted(n, inline, inits, forms, endless)
        with n.e.region([STEP, *types]) as region:
            _, values, rows = _trip(n, inline, region.own, inits, forms)
            stacks = stack_types(n, rows, count)
            n.e.close([*values, *rows])
    found = n.e.loop(FOR, [], inits, region, [*types, *stacks], trips=count)
    return [*rebuild(found[: len(inits)], forms), *found[len(inits) :]]


def stack_types(n: Node, rows: Sequence[Value], trips: Dim) -> list[TensorType]:
    """The types of stacked rows, asked for inside the loop's region."""
    found = stacked(n.e, rows, trips)
    if found is None:
        raise Refused("the size of its rows changes from trip to trip", _CHANGES)
    return found


def _trip(
    n: Node, inline: Inline, own: Sequence[Value], inits: list[Value], forms: list[Form]
) -> tuple[Value, list[Value], list[Value]]:
    """One trip, given its number and the carried values: whether to go on, the carried values,
    the rows."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    step, *args = own
    given = {names[0]: step, names[1]: n.e.scalar(True, BOOL)}
    given |= dict(zip(names[2:], rebuild(args, forms), strict=True))
    condition, *rest = inlined(inline, body, given)
    if not n.has(1):  # then what the body says of it is ignored
        condition = n.e.scalar(True, BOOL)
    values, kept = flatten(rest[: len(forms)])
    if kept != forms:
        raise Refused("a sequence or optional that goes from trip to trip changes", _CHANGES)
    check_carried(n, inits, forms, values)
    rows = [tensor(n, item) for item in rest[len(forms) :]]
    return n.e.reshape(n.e.cast(tensor(n, condition), BOOL), ()), values, rows


def _lead(n: Node) -> list[Value]:
    """The limit and the first condition, one element each."""
    limit = n[0] if n.has(0) else n.e.scalar(_ENDLESS, I64)
    flag = n[1] if n.has(1) else n.e.scalar(True, BOOL)
    return [n.e.reshape(n.e.cast(limit, I64), ()), n.e.reshape(n.e.cast(flag, BOOL), ())]


def _counted(
    n: Node, inline: Inline, inits: list[Value], forms: list[Form], endless: bool
) -> Dim:
    """A late symbol for the number of trips."""
    limit, flag = _lead(n)
    if endless:
        none = n.e.scalar(0, I64)
        total = n.e.op("select", flag, n.e.op("max", limit, none), none)
    else:
        with n.e.region([STEP, *(v.type for v in inits), STEP]) as region:
            going, values, _ = _trip(n, inline, region.own[:-1], inits, forms)
            n.e.close([going, *values, n.e.with_scalar("add", region.own[0], 1)])
        none = n.e.scalar(0, I64)
        types = [*(v.type for v in inits), STEP]
        total = n.e.loop(WHILE, [limit, flag], [*inits, none], region, types)[-1]
    return n.e.bind(total, ["trips"], "the number of trips of a loop")[0]


def check_carried(
    n: Node, inits: list[Value], forms: list[Form], values: list[Value]
) -> None:
    """A value that goes from trip to trip keeps its type: sizes that may be others are checked in
    each trip. Raises Refused where they are others."""
    fault = unlike(forms, forms, inits, values)
    if fault is not None:
        raise Refused(f"a value that goes from trip to trip changes: {fault}", _CHANGES)
    for i, (a, b) in enumerate(zip(inits, values, strict=True)):
        if n.e.same_type(a.type, b.type):
            continue
        for have, want in zip(b.type.shape, a.type.shape, strict=True):
            if isinstance(n.e.simplify(add(have, mul(want, -1))), int) and have != want:
                raise Refused(
                    f"the value {i} that goes from trip to trip begins as {a.type}, and becomes "
                    f"{b.type}", _CHANGES,
                )  # fmt: skip
            n.e.context.require(have, "==", want, f"{n.op}: value {i} keeps its shape")


def _truth(n: Node, condition: Value) -> bool | None:
    known = n.knowledge.dims(condition)
    if known is None or len(known) != 1 or isinstance(known[0], Expr):
        return None
    return bool(known[0])


def tensor(n: Node, item: Item | None) -> Value:
    if not isinstance(item, Value):
        raise InvalidModelError(f"{n.op}: its body gives a sequence where a tensor is needed")
    return item


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
