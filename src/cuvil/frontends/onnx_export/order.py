"""Running values, scattering, sorting and choosing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, helper

from cuvil.frontends.onnx_export.maps import WIDE, Writer
from cuvil.frontends.onnx_export.movement import count_up, index_of
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.frontends.onnx_export.types import Array, value_info
from cuvil.ir.core import Op
from cuvil.ir.types import BF16, BOOL, F16, F32, I32, I64, U64, DType, TensorType
from cuvil.ops.reduction import highest, lowest

_SUMMED: Mapping[DType, DType] = {**WIDE, U64: I64, F16: F32}
_SORTED: Mapping[DType, DType] = {**WIDE, F16: F32, BOOL: I32}
_EXTREME: Mapping[DType, DType] = {BOOL: I32, F16: F32, BF16: F32}
# Gets states and the element at hand; gives the new states and what is put out.
Step = Callable[[Scope, list[str], str], tuple[list[str], list[str]]]


def graph_of(
    scope: Scope, name: str, inputs: Sequence[tuple[str, TensorType]],
    outputs: Sequence[tuple[str, TensorType]],
) -> GraphProto:  # fmt: skip
    """The subgraph that a scope has become."""
    given = [value_info(n, t, symbols=False) for n, t in inputs]
    seen: set[str] = set()
    results = []
    for n, t in outputs:
        own = scope.output(n) if n not in seen else scope.node("Identity", n)
        seen.add(own)
        results.append(value_info(own, t, symbols=False))
    return helper.make_graph(scope.nodes, name, given, results)


def _scan(
    scope: Scope, x: str, x_type: TensorType, axis: int, states: Sequence[tuple[str, TensorType]],
    outs: Sequence[TensorType], step: Step, backward: bool = False,
) -> list[str]:  # fmt: skip
    """What ``step`` puts out, stacked along ``axis``."""
    inner = scope.inner()
    names = [scope.names.fresh("state") for _ in states]
    element = scope.names.fresh("element")
    new, out = step(inner, names, element)
    slice_type = _slice(x_type, axis)
    body = graph_of(
        inner, "step",
        [*((n, t) for n, (_, t) in zip(names, states, strict=True)), (element, slice_type)],
        [*((n, t) for n, (_, t) in zip(new, states, strict=True)), *zip(out, outs, strict=True)],
    )  # fmt: skip
    way: dict[str, Any] = {"scan_input_directions": [1], "scan_output_directions": [1] * len(outs)}
    made = scope.many(
        "Scan", [*(n for n, _ in states), x], len(states) + len(outs), body=body,
        num_scan_inputs=1, scan_input_axes=[axis], scan_output_axes=[axis] * len(outs),
        **(way if backward else {}),
    )  # fmt: skip
    return made[len(states) :]


def _slice(type: TensorType, axis: int) -> TensorType:
    return type.with_shape((*type.shape[:axis], *type.shape[axis + 1 :]))


def filled(scope: Scope, value: float, type: TensorType) -> str:
    """A tensor of one value."""
    number = scope.number(value, type.dtype)
    return scope.node("Expand", number, scope.shape(type.shape)) if type.rank else number


def _cumsum(scope: Scope, op: Op) -> list[str]:
    x = op.operands[0].type
    dtype = _SUMMED.get(x.dtype, x.dtype)
    name = scope.cast(scope.name(op.operands[0]), x.dtype, dtype)
    axis = scope.number(op.attrs["axis"], I64)
    flags: dict[str, Any] = {key: 1 for key in ("exclusive", "reverse") if op.attrs.get(key)}
    if not x.rank:
        name = scope.node("Unsqueeze", name, scope.ints([0]))
    made = scope.node("CumSum", name, axis, **flags)
    if not x.rank:
        made = scope.node("Squeeze", made, scope.ints([0]))
    return [scope.cast(made, dtype, x.dtype)]


def _running(start: float, combine: Callable[[Scope, str, str, DType], str]) -> Writer:
    """A state that every element is combined with."""
    def write(scope: Scope, op: Op) -> list[str]:
        x = op.operands[0].type
        dtype = _SUMMED.get(x.dtype, x.dtype)
        name = scope.cast(scope.name(op.operands[0]), x.dtype, dtype)
        wide = x.with_dtype(dtype)
        exclusive = bool(op.attrs.get("exclusive"))
        if not x.rank:
            return [scope.number(start, x.dtype) if exclusive else scope.name(op.operands[0])]
        axis = op.attrs["axis"] % x.rank
        kind = _slice(wide, axis)

        def step(s: Scope, states: list[str], element: str) -> tuple[list[str], list[str]]:
            new = combine(s, states[0], element, dtype)
            return [new], [states[0] if exclusive else new]

        first = [(filled(scope, start, kind), kind)]
        backward = bool(op.attrs.get("reverse"))
        (made,) = _scan(scope, name, wide, axis, first, [kind], step, backward)
        return [scope.cast(made, dtype, x.dtype)]

    return write


def _log_add(s: Scope, a: str, b: str, t: DType) -> str:
    """max + log(exp(a - max) + exp(b - max)); the larger where that is infinite."""
    top = s.node("Max", a, b)
    endless = s.node("IsInf", top)
    safe = s.node("Where", endless, s.number(0, t), top)
    parts = [s.node("Exp", s.node("Sub", v, safe)) for v in (a, b)]
    total = s.node("Add", safe, s.node("Log", s.node("Add", *parts)))
    return s.node("Where", endless, top, total)


def _extreme(better: str, start: Callable[[np.dtype[Any]], Array]) -> Writer:
    """The best so far and its place, the last of equal ones; NaN is better than all."""
    def write(scope: Scope, op: Op) -> list[str]:
        x = op.operands[0].type
        dtype = _SORTED.get(x.dtype, x.dtype)
        name = scope.cast(scope.name(op.operands[0]), x.dtype, dtype)
        if not x.rank:
            return [scope.name(op.operands[0]), scope.number(0, I64)]
        axis = op.attrs["axis"] % x.rank
        kind = _slice(x.with_dtype(dtype), axis)
        place, count = kind.with_dtype(I64), TensorType((), I64)

        def step(s: Scope, states: list[str], element: str) -> tuple[list[str], list[str]]:
            best, at, number = states
            taken = s.node(better, element, best)
            if dtype.is_float:
                kept = s.node("Not", s.node("IsNaN", best))
                taken = s.node("Or", s.node("IsNaN", element), s.node("And", kept, taken))
            best = s.node("Where", taken, element, best)
            at = s.node("Where", taken, number, at)
            return [best, at, s.node("Add", number, s.number(1, I64))], [best, at]

        first = start(dtype.numpy).item()
        states = [(filled(scope, first, kind), kind), (filled(scope, 0, place), place),
                  (scope.number(0, I64), count)]  # fmt: skip
        values, places = _scan(scope, name, x.with_dtype(dtype), axis, states, [kind, place], step)
        return [scope.cast(values, dtype, x.dtype), places]

    return write


def _scatter(name: str) -> Writer:
    def write(scope: Scope, op: Op) -> list[str]:
        data, index, updates = op.operands
        reduction = op.attrs.get("reduction", "none")
        source = data.type.dtype
        table = {"none": {}, "add": _SUMMED, "mul": _SUMMED}.get(reduction, _EXTREME)
        dtype = table.get(source, source)
        at = index_of(scope, index)
        attributes: dict[str, Any] = {"axis": op.attrs["axis"]} if "axis" in op.attrs else {}
        if name == "ScatterND" and index.type.dtype == I32:
            at = scope.cast(at, I32, I64)
        if reduction != "none":
            attributes["reduction"] = reduction
        names = [scope.cast(scope.name(v), source, dtype) for v in (data, updates)]
        made = scope.node(name, names[0], at, names[1], **attributes)
        return [scope.cast(made, dtype, source)]

    return write


def _topk(scope: Scope, op: Op) -> list[str]:
    x = op.operands[0].type
    dtype = _SORTED.get(x.dtype, x.dtype)
    name = scope.cast(scope.name(op.operands[0]), x.dtype, dtype)
    if not x.rank:
        return [scope.name(op.operands[0]), scope.number(0, I64)]
    values, places = scope.many(
        "TopK", [name, scope.dim(op.attrs["k"])], 2, axis=op.attrs["axis"],
        largest=int(op.attrs["largest"]), sorted=1,
    )  # fmt: skip
    return [scope.cast(values, dtype, x.dtype), places]


def _row_order(scope: Scope, op: Op) -> list[str]:
    """A stable sort for each column, the last one first."""
    x = op.operands[0].type
    rows, columns = x.shape
    assert isinstance(columns, int)
    dtype = _SORTED.get(x.dtype, x.dtype)
    name = scope.cast(scope.name(op.operands[0]), x.dtype, dtype)
    order = count_up(scope, rows)
    for column in reversed(range(columns)):
        line = scope.node("Gather", name, scope.number(column, I64), axis=1)
        sorted_line = scope.node("Gather", line, order, axis=0)
        given = [sorted_line, scope.dim(rows)]
        places = scope.many("TopK", given, 2, axis=0, largest=0, sorted=1)[1]
        order = scope.node("Gather", order, places, axis=0)
    return [order]


def _positions(scope: Scope, op: Op) -> list[str]:
    """Those found, then zeros, as many as are wanted."""
    size = scope.dim(op.attrs["size"])
    places = scope.node("NonZero", scope.name(op.operands[0]))
    found = scope.node("Squeeze", places, scope.ints([0]))
    zeros = scope.node("Expand", scope.ints([0]), size)
    joined = scope.node("Concat", found, zeros, axis=0)
    return [scope.node("Slice", joined, scope.ints([0]), size, scope.ints([0]))]


def _nms(scope: Scope, op: Op) -> list[str]:
    """ONNX lists what was kept, by batch and class; here it goes into rows of one length."""
    boxes, scores, most, overlap, low = (scope.name(v) for v in op.operands)
    limit = scope.dim(op.attrs["limit"])
    most = scope.node("Min", scope.node("Unsqueeze", most, scope.ints([0])), limit)
    given = [boxes, scores, most, overlap] + ([low] if op.attrs.get("has_low") else [])
    center: dict[str, Any] = {"center_point_box": 1} if op.attrs.get("center") else {}
    kept = scope.node("NonMaxSuppression", *given, **center)  # [n, 3]: batch, class, box
    row = scope.node("Slice", kept, scope.ints([0]), scope.ints([2]), scope.ints([1]))
    box = scope.node("Gather", kept, scope.number(2, I64), axis=1)
    batch, kinds = op.operands[1].type.shape[:2]
    none = scope.node("Expand", scope.number(0, I64), scope.shape((batch, kinds)))
    ones = scope.node("Sub", scope.node("Add", box, scope.number(1, I64)), box)
    count = scope.node("ScatterND", none, row, ones, reduction="add")
    flat = scope.node("Reshape", count, scope.ints([-1]))
    before = scope.node("CumSum", flat, scope.number(0, I64), exclusive=1)
    start = scope.node("Reshape", before, scope.shape((batch, kinds)))
    first = scope.node("GatherND", start, row)
    line = scope.node("Sub", scope.node("CumSum", ones, scope.number(0, I64), exclusive=1), first)
    place = scope.node("Concat", row, scope.node("Unsqueeze", line, scope.ints([1])), axis=1)
    empty = scope.node("Expand", scope.number(0, I64),
                       scope.shape((batch, kinds, op.attrs["limit"])))  # fmt: skip
    return [scope.node("ScatterND", empty, place, box), count]


def columns_known(op: Op) -> bool:
    """Whether a matrix's number of columns is a number."""
    return isinstance(op.operands[0].type.shape[1], int)


WRITERS: Mapping[str, Writer] = {
    "cumsum": _cumsum,
    "cumprod": _running(1, lambda s, a, b, t: s.node("Mul", a, b)),
    "logcumsumexp": _running(-math.inf, _log_add),
    "cummax": _extreme("GreaterOrEqual", lowest),
    "cummin": _extreme("LessOrEqual", highest),
    "scatter_elements": _scatter("ScatterElements"),
    "scatter_nd": _scatter("ScatterND"),
    "topk": _topk,
    "row_order": _row_order,
    "positions": _positions,
    "nms": _nms,
}
