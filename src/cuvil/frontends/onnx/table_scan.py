"""Scan and SequenceMap: loops whose steps are slices of their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuvil.frontends.onnx.bodies import Form, Inline, attempt, inlined
from cuvil.frontends.onnx.late_lists import stacked_list
from cuvil.frontends.onnx.loop_run_time import check_carried, stack_types, tensor
from cuvil.frontends.onnx.node import Item, ItemList, LateList, Node, Refused
from cuvil.frontends.onnx.table_loop import (
    FEW_NODES,
    FEW_STEPS,
    MAX_STEPS,
    TOO_LONG,
    Rule,
    count_nodes,
    or_lost,
    stacked_rows,
    too_long,
)
from cuvil.frontends.onnx.table_movement import part
from cuvil.ir.control import FOR, STEP
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim


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
    few = max(FEW_STEPS, FEW_NODES // max(1, count_nodes(body)))
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
        types = stack_types(n, found, batch)
        n.e.close(found)
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
        results = [tensor(n, item) for item in inlined(inline, body, given)]
        check_carried(n, states, [Form()] * count, results[:count])
        if many is not None:
            going = n.e.op("lt", step, n.e.cast(many, I64))
            zeros = [n.e.scalar(0, v.type.dtype) for v in results[count:]]
            pairs = zip(results, [*args, *zeros], strict=True)
            results = [n.e.map("select", going, v, w) for v, w in pairs]
        stacks = stack_types(n, results[count:], steps.length)
        n.e.close(results)
    types = [*(v.type for v in states), *stacks]
    return n.e.loop(FOR, [], states, region, types, trips=steps.length)


def _scan_written_out(
    n: Node, inline: Inline, states: list[Value], steps: _Steps, length: int
) -> Sequence[Item | None]:
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    scans: list[list[Value]] = [[] for _ in steps.out_axes]
    made = n.e.builder.made
    for step in range(length):
        if step >= FEW_STEPS and too_long(n, made):
            raise Refused(*TOO_LONG)
        given = dict(zip(names, [*states, *steps.at(n, step)], strict=True))
        results = [tensor(n, item) for item in inlined(inline, body, given)]
        states = results[: len(states)]
        for scan, value in zip(scans, results[len(states) :], strict=True):
            scan.append(value)
    return [*states, *steps.stacked(n, [stacked_rows(n, scan, 0) for scan in scans])]


def _scan_at_run_time(
    n: Node, inline: Inline, states: list[Value], steps: _Steps
) -> Sequence[Item | None]:
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    with n.e.region([STEP, *(v.type for v in states)]) as region:
        step, *args = region.own
        given = dict(zip(names, [*args, *steps.pick(n, step)], strict=True))
        results = [tensor(n, item) for item in inlined(inline, body, given)]
        check_carried(n, states, [Form()] * len(states), results[: len(states)])
        stacks = stack_types(n, results[len(states) :], steps.length)
        n.e.close(results)
    types = [*(v.type for v in states), *stacks]
    found = n.e.loop(FOR, [], states, region, types, trips=steps.length)
    return [*found[: len(states)], *steps.stacked(n, found[len(states) :])]


def _sequence_map(n: Node, inline: Inline) -> Sequence[Item | None]:
    """SequenceMap-17: the body once for each tensor of the first sequence."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    if isinstance(n.inputs[0], LateList):
        return _late_map(n, inline, n.inputs[0])
    count = len(n.sequence(0))
    columns: list[list[Value]] = [[] for _ in body.output]
    for i in range(count):
        row = [x.items[i] if isinstance(x, ItemList) else x for x in n.inputs]
        for column, item in zip(
            columns, inlined(inline, body, dict(zip(names, row, strict=True))), strict=True
        ):
            column.append(tensor(n, item))
    return [ItemList(tuple(column)) for column in columns]


def _late_map(n: Node, inline: Inline, first: LateList) -> Sequence[Item | None]:
    """One trip for each tensor of a sequence whose length is found at run time."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    count = first.stack.type.shape[0]
    lists = [
        stacked_list(n, x).stack if isinstance(x, (ItemList, LateList)) else None for x in n.inputs
    ]
    for stack in lists:
        if stack is not None:
            n.e.context.same(count, stack.type.shape[0], "SequenceMap: the number of tensors")
    with n.e.region([STEP]) as region:
        step = region.own[0]
        row = [
            x if stack is None else n.e.op("gather", stack, step, axis=0)
            for x, stack in zip(n.inputs, lists, strict=True)
        ]
        results = inlined(inline, body, dict(zip(names, row, strict=True)))
        rows = [tensor(n, item) for item in results]
        types = stack_types(n, rows, count)
        n.e.close(rows)
    return [LateList(v) for v in n.e.loop(FOR, [], [], region, types, trips=count)]


SCANS: Mapping[tuple[str, str], Rule] = {
    ("", "Scan"): or_lost(_scan),
    ("", "SequenceMap"): or_lost(_sequence_map),
}
