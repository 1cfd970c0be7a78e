"""A module as MLIR's generic syntax. Canonical: the same module gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from cuvil.ir.attr_text import attr_text, dict_text, dim_text, string_text, type_text
from cuvil.ir.core import Block, Function, Location, Module, Op, Value
from cuvil.ir.types import Shape, TensorType
from cuvil.sym.constraint import Constraint

NEIGHBOURS = 3


def print_module(module: Module, *, locations: bool = False) -> str:
    """The whole module. Weights of more than 16 elements stay outside: :func:`weights_of`.

    Raises InvalidModelError for an attribute that has no text.
    """
    printer = _Printer(locations)
    facts = {"cuvil.name": module.name, "cuvil.stage": module.stage}
    for key, table in (("cuvil.call", module.call), ("cuvil.source", module.source)):
        if table:
            facts[key] = json.dumps(table, sort_keys=True, default=str)
    printer.lines.append('"builtin.module"() ({')
    printer.function(module.main, "  ")
    printer.lines.append(f"}}) {dict_text(facts)} : () -> ()")
    return "\n".join(printer.lines) + "\n"


def print_op(op: Op, *, locations: bool = False) -> str:
    """One op with its regions; values are numbered from 0 in order of appearance."""
    printer = _Printer(locations)
    for value in op.operands:
        printer.name(value)
    printer.op(op, "")
    return "\n".join(printer.lines)


def excerpt(op: Op) -> str:
    """At most seven ops around a place, for error messages; regions are left out."""
    shown = [op]
    for _ in range(NEIGHBOURS):
        if shown[0].prev is not None:
            shown.insert(0, shown[0].prev)
        if shown[-1].next is not None:
            shown.append(shown[-1].next)
    printer = _Printer(False, regions=False)
    for near in shown:
        for value in near.operands:
            printer.name(value)
        printer.op(near, "> " if near is op else "  ")
    return "\n".join(printer.lines)


def _signature(inputs: Iterable[str], outputs: Sequence[str]) -> str:
    result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return f"({', '.join(inputs)}) -> {result}"


def _constraint_text(constraint: Constraint) -> str:
    text = f"{dim_text(constraint.left)} {constraint.relation} {dim_text(constraint.right)}"
    return f"#cuvil.constraint<{string_text(text)}, {string_text(constraint.origin)}>"


def _symbol_text(name: str, low: int, high: int | None) -> str:
    return f"#cuvil.symbol<{name}, {low}, {'inf' if high is None else high}>"


def location_text(place: Location) -> str:
    """``loc("node"("file.py:12"))``"""
    inner = f"({string_text(place.source)})" if place.source else ""
    return f"loc({string_text(place.name)}{inner})"


class _Printer:
    """Lines of text, and the names given to values so far."""

    def __init__(self, locations: bool, regions: bool = True) -> None:
        self.lines: list[str] = []
        self.locations = locations
        self.regions = regions
        self.names: dict[int, str] = {}
        self.results = 0
        self.args = 0
        self.types: dict[tuple[Shape, str], str] = {}

    def name(self, value: Value) -> str:
        """The value's name, given at its first appearance."""
        known = self.names.get(id(value))
        if known is None:
            if isinstance(value.owner, Block):
                known = f"%arg{self.args}"
                self.args += 1
            else:
                known = f"%{self.results}"
                self.results += 1
            self.names[id(value)] = known
        return known

    def type(self, type: TensorType) -> str:
        key = (type.shape, type.dtype.name)
        text = self.types.get(key)
        if text is None:
            text = self.types[key] = type_text(type)
        return text

    def function(self, function: Function, indent: str) -> None:
        types = _signature(
            [self.type(v.type) for v in function.inputs],
            [self.type(v.type) for v in function.outputs],
        )
        lines = self.lines
        lines.append(
            f'{indent}"func.func"() <{{function_type = {types}, '
            f"sym_name = {string_text(function.name)}}}> ({{"
        )
        self.block(function.body, indent)
        symbols = [_symbol_text(n, low, high) for n, (low, high) in function.symbols.items()]
        facts = ", ".join(
            (
                f"cuvil.constraints = [{', '.join(map(_constraint_text, function.constraints))}]",
                f"cuvil.inputs = {attr_text(tuple(function.input_names))}",
                f"cuvil.outputs = {attr_text(tuple(function.output_names))}",
                f"cuvil.symbols = [{', '.join(symbols)}]",
            )
        )
        lines.append(f"{indent}}}) {{{facts}}} : () -> ()")

    def block(self, block: Block, indent: str) -> None:
        args = ", ".join(f"{self.name(v)}: {self.type(v.type)}" for v in block.args)
        self.lines.append(f"{indent}^bb0({args}):")
        inner = indent + "  "
        for op in block.ops:
            self.op(op, inner)

    def op(self, op: Op, indent: str) -> None:
        name = self.name
        operands = op.operands
        head = f'"{op.name}"({", ".join([name(v) for v in operands])})'
        if op.results:
            head = f"{', '.join([name(v) for v in op.results])} = {head}"
        head = indent + head
        if op.regions and self.regions:
            head = self._regions(op, head, indent)
        if op.attrs:
            head = f"{head} {dict_text(op.attrs)}"
        type = self.type
        types = _signature([type(v.type) for v in operands], [type(v.type) for v in op.results])
        tail = ""
        if self.locations and (op.loc.name or op.loc.source):
            tail = " " + location_text(op.loc)
        self.lines.append(f"{head} : {types}{tail}")

    def _regions(self, op: Op, head: str, indent: str) -> str:
        opening = f"{head} ({{"
        for region in op.regions:
            self.lines.append(opening)
            self.block(region, indent)
            opening = f"{indent}}}, {{"
        return f"{indent}}})"
