"""Loops: written out where the number of trips is known and small, else loops at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuvil.errors import InvalidModelError
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
from cuvil.frontends.onnx.node import FIXED, Item, ItemList, Node, Refused
from cuvil.frontends.onnx.table_movement import part
from cuvil.ir.control import FOR, STEP, WHILE
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64, TensorType
from cuvil.sym.expr import Dim, Expr, maximum

MAX_STEPS = 1024
# A loop whose trips come to at most so many nodes is written out: it then optimises as a whole.
_FEW_NODES = 128
_FEW_STEPS = 8
_ENDLESS = (1 << 63) - 1
_CHANGES = "let it keep its shape, or give the number of trips at compile time"


class _Undecided(Refused):
    """Data decides whether there is another trip."""


def _nodes(graph: Any) -> int:
    """Nodes of a graph and of those inside."""
    return sum(1 + sum(map(_nodes, subgraphs(node))) for node in graph.node)


def _loop(n: Node, inline: Inline) -> Sequence[Item | None]:
    """Loop-1"""
    body = n.attrs["body"]
    limit = n.knowledge.dims(n[0]) if n.has(0) else [_ENDLESS]
    trips = limit[0] if limit else None
    start = _truth(n, n[1]) if n.has(1) else True
    size = max(1, _nodes(body))
    if isinstance(trips, int) and start is not None:
        few = max(_FEW_STEPS, _FEW_NODES // size)
        if trips <= few or trips == _ENDLESS:
            try:
                with attempt(n, inline):
                    return _written_out(n, inline, trips, start, few)
            except _Undecided:
                pass
    try:
        with attempt(n, inline):
            return _at_run_time(n, inline, trips, start)
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
    step = 0
    while going and step < trips:
        if step == most:
            raise _Undecided(f"it runs more than {most} times", "use fewer trips")
        counter = n.e.dims([step], scalar=True)
        given = dict(zip(names, [counter, n.e.scalar(True, BOOL), *carried], strict=True))
        condition, *rest = inlined(inline, body, given)
        carried = list(rest[: len(carried)])
        for scan, item in zip(scans, rest[len(carried) :], strict=True):
            scan.append(_tensor(n, item))
        known = _truth(n, _tensor(n, condition)) if n.has(1) else True
        if known is None:
            raise _Undecided("how often it runs is not known at compile time", FIXED)
        going = known
        step += 1
    if not step and scans:
        raise Refused("it runs no times, so the type of its scan outputs is unknown")
    return [*carried, *(_stacked(n, scan, 0) for scan in scans)]


def _at_run_time(
    n: Node, inline: Inline, trips: Dim | None, start: bool | None
) -> Sequence[Item | None]:
    """One ``scf.for``, where nothing but the number of trips ends it, or ``scf.while``."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    items = n.inputs[2:]
    if any(item is None for item in items):
        raise InvalidModelError(f"{n.op}: an initial value is left out")
    inits, forms = flatten([item for item in items if item is not None])
    with n.e.region([STEP, *(v.type for v in inits)]) as region:
        step, *args = region.own
        given = {names[0]: step, names[1]: n.e.scalar(True, BOOL)}
        given |= dict(zip(names[2:], rebuild(args, forms), strict=True))
        condition, *rest = inlined(inline, body, given)
        if not n.has(1):  # then what the body says of it is ignored
            condition = n.e.scalar(True, BOOL)
        going = n.e.reshape(n.e.cast(_tensor(n, condition), BOOL), ())
        values, kept = flatten(rest[: len(forms)])
        _check_carried(n, inits, forms, values, kept)
        rows = [_tensor(n, item) for item in rest[len(forms) :]]
        counted = trips is not None and _truth(n, going) is True and start is True
        if counted and trips == _ENDLESS:
            raise Refused("nothing ends it")
        n.e.close([*([] if counted else [going]), *values, *rows])
    carried = [v.type for v in inits]
    if counted and trips is not None:
        count = n.e.simplify(maximum(trips, 0))
        stacks = [v.type.with_shape((count, *v.type.shape)) for v in rows]
        found = n.e.loop(FOR, [], inits, region, [*carried, *stacks], trips=count)
    else:
        if rows:
            raise Refused("the number of rows that it stacks depends on data", FIXED)
        limit = n[0] if n.has(0) else n.e.scalar(_ENDLESS, I64)
        flag = n[1] if n.has(1) else n.e.scalar(True, BOOL)
        lead = [n.e.reshape(n.e.cast(limit, I64), ()), n.e.reshape(n.e.cast(flag, BOOL), ())]
        found = n.e.loop(WHILE, lead, inits, region, carried)
    return [*rebuild(found[: len(inits)], forms), *found[len(inits) :]]


def _check_carried(
    n: Node, inits: list[Value], forms: list[Form], values: list[Value], kept: list[Form]
) -> None:
    """A value that goes from trip to trip keeps its type. Raises Refused where one doesn't."""
    fault = unlike(forms, kept, inits, values)
    if fault is not None:
        raise Refused(f"a value that goes from trip to trip changes: {fault}", _CHANGES)
    for i, (a, b) in enumerate(zip(inits, values, strict=True)):
        if not n.e.same_type(a.type, b.type):
            raise Refused(
                f"the value {i} that goes from trip to trip begins as {a.type}, and becomes "
                f"{b.type}", _CHANGES,
            )  # fmt: skip


def _truth(n: Node, condition: Value) -> bool | None:
    known = n.knowledge.dims(condition)
    if known is None or len(known) != 1 or isinstance(known[0], Expr):
        return None
    return bool(known[0])


def _tensor(n: Node, item: Item | None) -> Value:
    if not isinstance(item, Value):
        raise InvalidModelError(f"{n.op}: its body gives a sequence where a tensor is needed")
    return item


def _stacked(n: Node, values: Sequence[Value], axis: int) -> Value:
    rows = [n.e.unsqueeze(v, axis) for v in values]
    return rows[0] if len(rows) == 1 else n.e.op("concat", *rows, axis=axis)


@dataclass(frozen=True)
class _Steps:
    """The inputs that a Scan goes along, how, and where its rows go."""

    inputs: list[Value]
    axes: list[int]
    back: list[int]
    out_axes: list[int]
    out_back: list[int]
    length: Dim

    def at(self, n: Node, step: int) -> list[Value]:
        """The slices of a step that is known."""
        assert isinstance(self.length, int)
        places = [self.length - 1 - step if reverse else step for reverse in self.back]
        return [
            n.e.squeeze(part(n, v, axis, at, 1), [axis])
            for v, axis, at in zip(self.inputs, self.axes, places, strict=True)
        ]

    def pick(self, n: Node, step: Value, many: Value | None = None) -> list[Value]:
        """The slices of the step that a value tells; of ``many`` steps, if there are fewer than
        the inputs have room for."""
        last = n.e.dims([n.e.simplify(self.length - 1)], scalar=True)
        if many is not None:
            last = n.e.with_scalar("sub", n.e.cast(many, I64), 1)
        slices = []
        for value, axis, reverse in zip(self.inputs, self.axes, self.back, strict=True):
            at = step
            if reverse:  # beyond the last step any slice will do
                at = n.e.with_scalar("max", n.e.op("sub", last, step), 0)
            slices.append(n.e.op("gather", value, at, axis=axis))
        return slices

    def stacked(self, n: Node, rows: Sequence[Value]) -> list[Value]:
        """Rows in the order of the steps along axis 0, turned as asked."""
        made = []
        for value, axis, reverse in zip(rows, self.out_axes, self.out_back, strict=True):
            rank = value.type.rank
            if reverse:
                value = _reversed(n, value)
            axis = n.count(axis, rank)
            made.append(n.e.transpose(value, [*range(1, axis + 1), 0, *range(axis + 1, rank)]))
        return made


def _reversed(n: Node, value: Value) -> Value:
    shape = value.type.shape
    rest = (0,) * (len(shape) - 1)
    return n.e.op(
        "slice", value, start=(n.e.simplify(shape[0] - 1), *rest), size=shape,
        step=(-1, *(1,) * len(rest)),
    )  # fmt: skip


def _steps(n: Node, inputs: list[Value], outputs: int) -> _Steps:
    count = len(inputs)
    axes = n.integers("scan_input_axes", [0] * count)
    axes = [n.count(a, v.type.rank) for a, v in zip(axes, inputs, strict=True)]
    length = inputs[0].type.shape[axes[0]]
    for value, axis in zip(inputs[1:], axes[1:], strict=True):
        length = n.e.context.same(length, value.type.shape[axis], "Scan: the number of steps")
    return _Steps(
        inputs, axes, n.integers("scan_input_directions", [0] * count),
        n.integers("scan_output_axes", [0] * outputs),
        n.integers("scan_output_directions", [0] * outputs), length,
    )  # fmt: skip


def _scan(n: Node, inline: Inline) -> Sequence[Item | None]:
    """Scan-9 (Scan-8 has a batch of its own)"""
    if n.version < 9:
        return _scan_of_batches(n, inline)
    body = n.attrs["body"]
    count = n.integer("num_scan_inputs")
    states = n.values()[: len(n.inputs) - count]
    steps = _steps(n, n.values()[len(states) :], len(body.output) - len(states))
    few = max(_FEW_STEPS, _FEW_NODES // max(1, _nodes(body)))
    length = steps.length
    if isinstance(length, int) and 0 < length <= few:
        return _scan_written_out(n, inline, states, steps, length)
    try:
        with attempt(n, inline):
            return _scan_at_run_time(n, inline, states, steps)
    except Refused:
        if not isinstance(length, int) or not 0 < length <= MAX_STEPS:
            raise
    return _scan_written_out(n, inline, states, steps, length)


def _scan_of_batches(n: Node, inline: Inline) -> Sequence[Item | None]:
    """Scan-8: for each entry of a batch, along dimension 1. With lengths, an entry's state stays
    what it is once its sequence has ended, and its rows from there on are 0."""
    count = n.integer("num_scan_inputs")
    lengths, values = n.optional(0), n.values_from(1)
    states, inputs = values[:-count], values[-count:]
    batch, length = inputs[0].type.shape[:2]
    with n.e.region([STEP]) as outer:
        entry = outer.own[0]
        mine, seen = (
            [n.e.op("gather", v, entry, axis=0) for v in group] for group in (states, inputs)
        )
        many = None if lengths is None else n.e.op("gather", lengths, entry, axis=0)
        steps = _Steps(seen, [0] * count, n.integers("directions", [0] * count), [], [], length)
        found = _scan_of_entry(n, inline, mine, steps, many)
        n.e.close(found)
    types = [v.type.with_shape((batch, *v.type.shape)) for v in found]
    return n.e.loop(FOR, [], [], outer, types, trips=batch)


def _scan_of_entry(
    n: Node, inline: Inline, states: list[Value], steps: _Steps, many: Value | None
) -> list[Value]:
    """One entry of a batch; ``many`` is the length of its sequence, if it has one of its own."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    count = len(states)
    with n.e.region([STEP, *(v.type for v in states)]) as region:
        step, *args = region.own
        given = dict(zip(names, [*args, *steps.pick(n, step, many)], strict=True))
        results = [_tensor(n, item) for item in inlined(inline, body, given)]
        _check_carried(n, states, [Form()] * count, results[:count], [Form()] * count)
        if many is not None:
            going = n.e.op("lt", step, n.e.cast(many, I64))
            zeros = [n.e.scalar(0, v.type.dtype) for v in results[count:]]
            pairs = zip(results, [*args, *zeros], strict=True)
            results = [n.e.map("select", going, v, w) for v, w in pairs]
        n.e.close(results)
    types = [v.type for v in states]
    types += [v.type.with_shape((steps.length, *v.type.shape)) for v in results[count:]]
    return n.e.loop(FOR, [], states, region, types, trips=steps.length)


def _scan_written_out(
    n: Node, inline: Inline, states: list[Value], steps: _Steps, length: int
) -> Sequence[Item | None]:
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    scans: list[list[Value]] = [[] for _ in steps.out_axes]
    for step in range(length):
        given = dict(zip(names, [*states, *steps.at(n, step)], strict=True))
        results = [_tensor(n, item) for item in inlined(inline, body, given)]
        states = results[: len(states)]
        for scan, value in zip(scans, results[len(states) :], strict=True):
            scan.append(value)
    return [*states, *steps.stacked(n, [_stacked(n, scan, 0) for scan in scans])]


def _scan_at_run_time(
    n: Node, inline: Inline, states: list[Value], steps: _Steps
) -> Sequence[Item | None]:
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    with n.e.region([STEP, *(v.type for v in states)]) as region:
        step, *args = region.own
        given = dict(zip(names, [*args, *steps.pick(n, step)], strict=True))
        results = [_tensor(n, item) for item in inlined(inline, body, given)]
        _check_carried(
            n, states, [Form()] * len(states), results[: len(states)], [Form()] * len(states)
        )
        n.e.close(results)
    types: list[TensorType] = [v.type for v in states]
    types += [v.type.with_shape((steps.length, *v.type.shape)) for v in results[len(states) :]]
    found = n.e.loop(FOR, [], states, region, types, trips=steps.length)
    return [*found[: len(states)], *steps.stacked(n, found[len(states) :])]


def _sequence_map(n: Node, inline: Inline) -> Sequence[Item | None]:
    """SequenceMap-17: the body once for each tensor of the first sequence."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    count = len(n.sequence(0))
    columns: list[list[Value]] = [[] for _ in body.output]
    for i in range(count):
        row = [x.items[i] if isinstance(x, ItemList) else x for x in n.inputs]
        for column, item in zip(
            columns, inlined(inline, body, dict(zip(names, row, strict=True))), strict=True
        ):
            column.append(_tensor(n, item))
    return [ItemList(tuple(column)) for column in columns]


def _or_lost(
    rule: Callable[[Node, Inline], Sequence[Item | None]],
) -> Callable[[Node, Inline], Sequence[Item | None]]:
    """The rule; where a node of its body has no translation, its outputs stand for nothing."""

    def apply(n: Node, inline: Inline) -> Sequence[Item | None]:
        try:
            return rule(n, inline)
        except Lost:
            return [None] * len(n.outputs)

    return apply


LOOPS: Mapping[tuple[str, str], Callable[[Node, Inline], Sequence[Item | None]]] = {
    ("", "Loop"): _or_lost(_loop),
    ("", "Scan"): _or_lost(_scan),
    ("", "SequenceMap"): _or_lost(_sequence_map),
}
