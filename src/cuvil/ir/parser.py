"""MLIR's generic syntax to a module: the inverse of ``print_module``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from cuvil.ir.attr_parser import TYPE, AttrParser, SymbolRange
from cuvil.ir.attr_text import DIGEST_CHARACTERS
from cuvil.ir.core import UNKNOWN, Block, Function, Location, Module, Op, Value, Weight
from cuvil.ir.types import TensorType
from cuvil.sym.constraint import Constraint

_VALUE = r"%[A-Za-z0-9_$.-]+"
_VALUES = rf"(?:{_VALUE}(?:\s*,\s*{_VALUE})*)?"
_TYPES = rf"(?:{TYPE}(?:\s*,\s*{TYPE})*)?"
_ONE_VALUE = re.compile(_VALUE)
_ONE_TYPE = re.compile(TYPE)
_HEAD = re.compile(rf'(?:({_VALUES})\s*=\s*)?"([A-Za-z_][\w$.]*)"\s*\(\s*({_VALUES})\s*\)')
_RESULTS = re.compile(rf"{_VALUES}\s*=")
_NAME = re.compile(r'"[A-Za-z_][\w$.]*"')
_SIGNATURE = re.compile(rf":\s*\(\s*({_TYPES})\s*\)\s*->\s*(?:({TYPE})|\(\s*({_TYPES})\s*\))")
_BLOCK = re.compile(r"\^[A-Za-z0-9_$.]+\s*(\(|:)")
_DEPTH = 64

Signature = tuple[tuple[TensorType, ...], tuple[TensorType, ...]]


def parse_module(text: str, weights: Mapping[str, Weight] | None = None) -> Module:
    """The module that ``text`` spells. ``weights`` maps the digest of each constant that the text
    leaves out to its data (``weights_of`` gives that table).

    Raises InvalidModelError with line and column. Types are taken as written; run the verifier
    to check them against the operators' rules.
    """
    table = dict(weights or {})
    table.update({digest[:DIGEST_CHARACTERS]: w for digest, w in table.items()})
    return _Parser(text, table).module()


class _Parser(AttrParser):
    """One module's text; ``values`` holds the names in scope."""

    def __init__(self, text: str, weights: Mapping[str, Weight]) -> None:
        super().__init__(text, weights)
        self.values: dict[str, Value] = {}
        self.scope: list[str] = []
        self.signatures: dict[str, Signature] = {}
        self.depth = 0

    def module(self) -> Module:
        start = self.skip()
        outer = self.op()
        if self.peek():
            self.fail("expected the end of the text")
        if outer.name != "builtin.module" or len(outer.regions) != 1:
            self.fail("expected a builtin.module with one region", start)
        functions = list(outer.regions[0].ops)
        if len(functions) != 1 or functions[0].name != "func.func":
            self.fail("a module holds one func.func", start)
        facts = outer.attrs
        return Module(
            self._function(functions[0], start),
            self._fact(facts, "cuvil.name", str, "model", start),
            self._fact(facts, "cuvil.stage", str, "captured", start),
            self._json(facts, "cuvil.call", start),
            self._json(facts, "cuvil.source", start),
        )

    def _fact(self, facts: Mapping[str, Any], key: str, kind: type, default: Any, at: int) -> Any:
        value = facts.get(key, default)
        if not isinstance(value, kind):
            self.fail(f"{key} must be a {kind.__name__}", at)
        return value

    def _json(self, facts: Mapping[str, Any], key: str, at: int) -> dict[str, Any]:
        text = self._fact(facts, key, str, "{}", at)
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.fail(f"{key} must hold a JSON object", at)
        return found

    def _list(self, op: Op, key: str, kind: type, at: int) -> list[Any]:
        items = self._fact(op.attrs, key, tuple, (), at)
        if not all(isinstance(item, kind) for item in items):
            self.fail(f"{key} must be a list of {kind.__name__}", at)
        return list(items)

    def _function(self, op: Op, at: int) -> Function:
        if len(op.regions) != 1:
            self.fail("func.func needs one region", at)
        body = op.regions[0]
        if body.last is None or body.last.name != "func.return":
            self.fail("func.func needs func.return at its end", at)
        name = self._fact(op.attrs, "sym_name", str, None, at)
        inputs = self._list(op, "cuvil.inputs", str, at)
        outputs = self._list(op, "cuvil.outputs", str, at)
        if len(inputs) != len(body.args) or len(outputs) != len(body.last.operands):
            self.fail("cuvil.inputs and cuvil.outputs need one name for each value", at)
        for value, label in zip(body.args, inputs, strict=True):
            value.name = label
        self._check_function_type(op, body, at)
        ranges = self._list(op, "cuvil.symbols", SymbolRange, at)
        symbols = {r.name: (r.low, r.high) for r in ranges}
        constraints = self._list(op, "cuvil.constraints", Constraint, at)
        return Function(name, body, inputs, outputs, symbols, constraints)

    def _check_function_type(self, op: Op, body: Block, at: int) -> None:
        written = self._fact(op.attrs, "function_type", str, None, at)
        found = _SIGNATURE.fullmatch(f":{written}")
        here = ([v.type for v in body.args], [v.type for v in body.terminator.operands])
        if found is None or [list(part) for part in self._signature_of(found, at)] != list(here):
            self.fail("function_type differs from the types of the arguments and results", at)

    def op(self) -> Op:
        """``%0 = "name"(%1) <{...}> ({...}) {...} : (T) -> T loc(...)``"""
        start = self.skip()
        head = _HEAD.match(self.text, start)
        if head is None:
            self._explain_head()
        self.at = head.end()
        names, name, operand_text = head.groups()
        operands = self._operands(operand_text, head.start(3)) if operand_text else []
        attrs = self._properties() if self.accept("<{") else {}
        regions = self._regions() if self.peek() == "(" else []
        if self.peek() == "{":
            attrs.update(self.dictionary())
        inputs, outputs = self._signature()
        if len(inputs) != len(operands) or any(
            v.type is not t and v.type != t for v, t in zip(operands, inputs)
        ):
            self.fail(f"the types of {name}'s operands differ from those of their values", start)
        place = self._location() if self.accept("loc(") else UNKNOWN
        op = Op(name, operands, outputs, attrs, regions, place)
        self._define(names, op.results, start)
        return op

    def _explain_head(self) -> NoReturn:
        """Fail at the first part of an op that is wrong."""
        self.match(_RESULTS)
        self.need(_NAME, 'an operation such as %0 = "cuvil.add"(%1, %2)')
        self.expect("(")
        self.fail("expected value names such as %0, separated by commas, and ')'")

    def _operands(self, text: str, at: int) -> list[Value]:
        values = self.values
        try:
            return [values[n] for n in _ONE_VALUE.findall(text)]
        except KeyError:
            for match in _ONE_VALUE.finditer(self.text, at):
                if match.group() not in values:
                    self.fail(f"the value {match.group()} is not defined here", match.start())
            raise

    def _define(self, names: str | None, results: Sequence[Value], at: int) -> None:
        found = _ONE_VALUE.findall(names) if names else []
        if len(found) != len(results):
            self.fail(f"{len(found)} names for {len(results)} results", at)
        for name, value in zip(found, results, strict=True):
            if name in self.values:
                self.fail(f"the value {name} is defined twice", at)
            self.values[name] = value
            self.scope.append(name)

    def _properties(self) -> dict[str, Any]:
        self.at -= 1
        table = self.dictionary()
        self.expect(">")
        return table

    def _signature(self) -> Signature:
        at = self.skip()
        match = _SIGNATURE.match(self.text, at)
        if match is None:
            self.fail("expected the types, such as : (!cuvil.tensor<[N] x f32>) -> ...")
        self.at = match.end()
        key = match.group()
        found = self.signatures.get(key)
        if found is None:
            found = self.signatures[key] = self._signature_of(match, 0)
        return found

    def _signature_of(self, match: re.Match[str], base: int) -> Signature:
        inputs, single, several = match.groups()
        offset = match.start(2) if single else match.start(3)
        return (
            self._types_in(inputs, base + match.start(1)),
            self._types_in(single or several, base + offset),
        )

    def _types_in(self, text: str, at: int) -> tuple[TensorType, ...]:
        return tuple(
            self.type_of(m.group(), at + m.start()) for m in _ONE_TYPE.finditer(text or "")
        )

    def _regions(self) -> list[Block]:
        self.expect("(")
        regions = []
        while True:
            self.expect("{")
            regions.append(self._region())
            if self.accept(")"):
                return regions
            self.expect(",", "',' or ')'")

    def _region(self) -> Block:
        """One block, after its brace; the names made inside end with it."""
        self.depth += 1
        if self.depth > _DEPTH:
            self.fail(f"regions are nested more than {_DEPTH} deep")
        outside, self.scope = self.scope, []
        block = Block()
        if opening := self.match(_BLOCK):
            if opening.group(1) == "(":
                self._arguments(block)
                self.expect(":")
        while not self.accept("}"):
            if self.peek() == "":
                self.fail("expected '}'")
            block._append(self.op())
        for name in self.scope:
            del self.values[name]
        self.scope = outside
        self.depth -= 1
        return block

    def _arguments(self, block: Block) -> None:
        if self.accept(")"):
            return
        while True:
            name = self.need(_ONE_VALUE, "an argument such as %arg0")
            self.expect(":")
            self._define(name.group(), [block._add_arg(self.type())], name.start())
            if self.accept(")"):
                return
            self.expect(",", "',' or ')'")

    def _location(self) -> Location:
        if self.accept("unknown"):
            self.expect(")")
            return UNKNOWN
        name = self.string()
        source = ""
        if self.accept("("):
            source = self.string()
            self.expect(")")
        self.expect(")")
        return Location(name, source)
