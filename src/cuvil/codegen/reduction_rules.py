"""How each reduction accumulates, as data: start, step, end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cuvil.codegen.literals import literal
from cuvil.ir.core import Op
from cuvil.ir.types import F32, F64, DType
from cuvil.ops.elementwise import narrow, widen


@dataclass(frozen=True)
class Rule:
    """``start`` of a dtype's accumulator, and the step as text over {a} and {x}."""

    start: str
    step: str


_RULES: Mapping[str, Rule] = {
    "reduce_sum": Rule("zero", "{a} + {x}"),
    "reduce_mean": Rule("zero", "{a} + {x}"),
    "reduce_prod": Rule("one", "{a} * {x}"),
    "reduce_max": Rule("lowest", "cuvil::max({a}, {x})"),
    "reduce_min": Rule("highest", "cuvil::min({a}, {x})"),
    "reduce_any": Rule("zero", "{a} | {x}"),
    "reduce_all": Rule("one", "{a} & {x}"),
}


def _dtype(op: Op) -> DType:
    """The dtype that is accumulated in: 16-bit floats in f32."""
    dtype = op.operands[0].type.dtype
    return F32 if dtype.is_float and dtype.size == 2 else dtype


def accumulator(op: Op) -> str:
    """The C++ type of one accumulator."""
    dtype = _dtype(op)
    if op.short.startswith("arg"):
        return f"cuvil::Best<{dtype.cxx}>"
    if dtype.kind == "i":
        return f"uint{max(dtype.size, 4) * 8}_t" if op.short in _WRAPPING else dtype.cxx
    return dtype.cxx


SUMS = ("reduce_sum", "reduce_mean")
_WRAPPING = (*SUMS, "reduce_prod")


def adds_floats(op: Op) -> bool:
    """A sum that rounds: long ones are made of shorter ones, so that errors grow slowly."""
    return op.short in SUMS and _dtype(op).is_float


def total_type(op: Op) -> str:
    """The C++ type in which the parts of a long sum are added up: they are few."""
    return F64.cxx if adds_floats(op) else accumulator(op)


def initial(op: Op) -> str:
    """The start of an accumulator."""
    dtype = _dtype(op)
    if op.short.startswith("arg"):
        return f"{accumulator(op)}()"
    start = _RULES[op.short].start
    if start == "zero":
        return literal(0, dtype)
    if start == "one":
        return literal(1, dtype)
    if dtype.is_float:
        return literal(-np.inf if start == "lowest" else np.inf, dtype)
    if dtype.kind == "b":
        return "false" if start == "lowest" else "true"
    info = np.iinfo(dtype.numpy)
    return literal(info.min if start == "lowest" else info.max, dtype)


def combine(op: Op, acc: str, lane: str, element: str, position: str | None) -> list[str]:
    """Statements that take one element (or, with no position, another accumulator) in."""
    target = f"{acc}[{lane}]"
    if op.short.startswith("arg"):
        sign = "greatest" if op.short == "argmax" else "least"
        last = "true" if op.attrs.get("last") else "false"
        dtype = op.operands[0].type.dtype
        if position is None:
            return [f"cuvil::take_{sign}<{last}>({target}, {element});"]
        value = widen(element, dtype)
        return [f"cuvil::take_{sign}<{last}>({target}, {{{value}, {position}}});"]
    x = element
    if position is None and acc in element:
        pass
    else:
        x = widen(element, op.operands[0].type.dtype)
    ctype = accumulator(op)
    return [f"{target} = {ctype}({_RULES[op.short].step.format(a=target, x=x)});"]


def finish(op: Op, text: str, count: str) -> str:
    """The reduction's element from a finished accumulator; ``count`` elements went in."""
    dtype = op.results[0].type.dtype
    if op.short.startswith("arg"):
        return f"{text}.position"
    if op.short == "reduce_mean":
        wide = _dtype(op)
        if wide.is_float:
            return narrow(f"({text} / {wide.cxx}({count}))", dtype)
        return f"cuvil::div({dtype.cxx}({text}), {dtype.cxx}({count}))"
    if accumulator(op) == dtype.cxx:
        return text
    if dtype.is_float:
        return narrow(text, dtype)
    return f"{dtype.cxx}({text})"
