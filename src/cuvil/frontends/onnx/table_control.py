"""Control flow that is decided at compile time: branches taken, loops written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import FIXED, Item, ItemList, Node, Refused
from cuvil.frontends.onnx.table_movement import part
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL

Inline = Callable[[Any, Mapping[str, Item | None]], list[Item | None]]
Control = Callable[[Node, Inline], Sequence[Item | None]]
MAX_STEPS = 1024


def _if(n: Node, inline: Inline) -> Sequence[Item | None]:
    known = n.knowledge.dims(n[0])
    if known is None or len(known) != 1:
        raise Refused("its condition is not known at compile time", FIXED)
    return inline(n.attrs["then_branch" if known[0] else "else_branch"], {})


def _loop(n: Node, inline: Inline) -> Sequence[Item | None]:
    """Loop-11: trip count and condition must be known; the body is written out each time."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    limit = n.static(0, "the number of trips")[0] if n.has(0) else MAX_STEPS + 1
    going = _truth(n, n[1]) if n.has(1) else True
    carried: list[Item | None] = list(n.inputs[2:])
    scans: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    step = 0
    while going and step < limit:
        if step == MAX_STEPS:
            raise Refused(f"it runs more than {MAX_STEPS} times", "use fewer trips")
        counter = n.e.dims([step], scalar=True)
        condition = n.e.scalar(True, BOOL)
        given = dict(zip(names, [counter, condition, *carried], strict=True))
        condition_out, *rest = inline(body, given)
        if any(item is None for item in (condition_out, *rest)):
            return [None] * len(n.outputs)
        carried = rest[: len(carried)]
        for scan, item in zip(scans, rest[len(carried) :], strict=True):
            scan.append(_tensor(n, item))
        going = _truth(n, _tensor(n, condition_out))
        step += 1
    if not step and scans:
        raise Refused("it runs no times, so the type of its scan outputs is unknown")
    return [*carried, *(_stacked(n, scan, 0) for scan in scans)]


def _truth(n: Node, condition: Value) -> bool:
    known = n.knowledge.dims(condition)
    if known is None or len(known) != 1:
        raise Refused("how often it runs is not known at compile time", FIXED)
    return bool(known[0])


def _tensor(n: Node, item: Item | None) -> Value:
    if not isinstance(item, Value):
        raise InvalidModelError(f"{n.op}: its body gives a sequence where a tensor is needed")
    return item


def _stacked(n: Node, values: Sequence[Value], axis: int) -> Value:
    rows = [n.e.unsqueeze(v, axis) for v in values]
    return rows[0] if len(rows) == 1 else n.e.op("concat", *rows, axis=axis)


def _scan(n: Node, inline: Inline) -> Sequence[Item | None]:
    """Scan-9: the sequence length must be known; the body is written out for each step."""
    if n.version < 9:
        raise Refused("Scan of opset 8 has a batch dimension of its own", "use opset 9 or newer")
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    count = n.integer("num_scan_inputs")
    states: list[Item | None] = list(n.inputs[: len(n.inputs) - count])
    inputs = n.values()[len(states) :]
    axes = n.integers("scan_input_axes", [0] * count)
    axes = [n.count(a, v.type.rank) for a, v in zip(axes, inputs, strict=True)]
    back = n.integers("scan_input_directions", [0] * count)
    length = n.size(inputs[0].type.shape, axes[0], "the number of steps")
    if not 0 < length <= MAX_STEPS:
        raise Refused(f"it runs {length} times", f"use 1 to {MAX_STEPS} steps")
    outputs = len(body.output) - len(states)
    scans: list[list[Value]] = [[] for _ in range(outputs)]
    for step in range(length):
        places = [length - 1 - step if reverse else step for reverse in back]
        slices = [
            n.e.squeeze(part(n, v, axis, at, 1), [axis])
            for v, axis, at in zip(inputs, axes, places, strict=True)
        ]
        results = inline(body, dict(zip(names, [*states, *slices], strict=True)))
        if any(item is None for item in results):
            return [None] * len(n.outputs)
        states = results[: len(states)]
        for scan, item in zip(scans, results[len(states) :], strict=True):
            scan.append(_tensor(n, item))
    out_axes = n.integers("scan_output_axes", [0] * outputs)
    out_back = n.integers("scan_output_directions", [0] * outputs)
    stacked = []
    for scan, axis, reverse in zip(scans, out_axes, out_back, strict=True):
        axis = n.count(axis, scan[0].type.rank + 1)
        stacked.append(_stacked(n, scan[::-1] if reverse else scan, axis))
    return [*states, *stacked]


def _sequence_map(n: Node, inline: Inline) -> Sequence[Item | None]:
    """SequenceMap-17: the body once for each tensor of the first sequence."""
    body = n.attrs["body"]
    names = [value.name for value in body.input]
    count = len(n.sequence(0))
    columns: list[list[Value]] = [[] for _ in body.output]
    for i in range(count):
        row = [x.items[i] if isinstance(x, ItemList) else x for x in n.inputs]
        results = inline(body, dict(zip(names, row, strict=True)))
        if any(item is None for item in results):
            return [None] * len(n.outputs)
        for column, item in zip(columns, results, strict=True):
            column.append(_tensor(n, item))
    return [ItemList(tuple(column)) for column in columns]


CONTROL: Mapping[tuple[str, str], Control] = {
    ("", "If"): _if,
    ("", "Loop"): _loop,
    ("", "Scan"): _scan,
    ("", "SequenceMap"): _sequence_map,
}
