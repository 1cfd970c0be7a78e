"""Checks that a module is well formed: links, uses, dominance, terminators, types, stage.

What it reports is a fault of Cuvil, not of the user's model: the pass that ran last broke the
graph. A message shows at most seven ops around the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from cuvil.errors import CuvilError, InvalidModelError
from cuvil.errors.words import counted
from cuvil.ir.attrs import attr_symbols
from cuvil.ir.builder import TypeRules
from cuvil.ir.control import (
    REQUIRE,
    argument_types,
    is_control,
    requirements,
    signature_fault,
    yielded_types,
)
from cuvil.ir.core import Block, Function, Module, Op, Value
from cuvil.ir.keeping import is_keeping, keeping_fault
from cuvil.ir.late import BINDS, bound_by, late_symbols
from cuvil.ir.printer import excerpt
from cuvil.ir.types import TensorType
from cuvil.sym.constraint import Constraint
from cuvil.sym.equality import Equality
from cuvil.sym.expr import Dim, Expr

SymbolRanges = dict[str, tuple[int, "int | None"]]
RulesFor = Callable[[SymbolRanges, list[Constraint]], TypeRules]
Legality = Callable[[Op], "str | None"]
REGION_TERMINATORS = ("cuvil.yield",)
TERMINATORS = ("func.return", *REGION_TERMINATORS)


def verify_module(
    module: Module, rules: RulesFor | None = None, legal: Legality | None = None
) -> None:
    """Raise InvalidModelError at the first fault.

    ``rules(symbols, constraints)`` makes the operators' type rules over copies of the function's
    symbols and constraints; without it types are not inferred again. ``legal(op)`` is the stage's
    spec: None, or the reason why the op may not occur there.
    """
    verify_function(module.main, rules, legal)


def verify_function(
    function: Function, rules: RulesFor | None = None, legal: Legality | None = None
) -> None:
    """Like :func:`verify_module`, for one function."""
    _check_names(function)
    _Verifier(function, rules, legal).run()


def _check_names(function: Function) -> None:
    if function.body.last is None or function.body.last.name != "func.return":
        _fault(f"function {function.name} does not end with func.return", function.body.last)
    for what, names, values in (
        ("input", function.input_names, function.inputs),
        ("output", function.output_names, function.outputs),
    ):
        if len(names) != len(values):
            _fault(f"{counted(len(names), f'{what} name')} for {counted(len(values), what)}", None)
        if len(set(names)) != len(names):
            _fault(f"two {what}s have one name: {names}", None)


def _fault(message: str, op: Op | None) -> NoReturn:
    text = message if op is None or op.block is None else f"{message}\n{excerpt(op)}"
    raise InvalidModelError(
        text,
        where="" if op is None else str(op.loc),
        stage="verify the graph",
        hint="this is a fault of Cuvil's last pass: please report it",
    )


class _Verifier:
    """One walk; ``uses`` counts the uses met, ``visible`` holds the values defined so far."""

    def __init__(
        self, function: Function, rules: RulesFor | None, legal: Legality | None
    ) -> None:
        self.function = function
        self.legal = legal
        self.uses: dict[int, int] = {}
        self.defined: list[Value] = []
        self.known_dims: set[int] = set()
        self.visible: set[int] = set()
        self.late = late_symbols(function)
        self.bound: set[str] = set()
        self.assumed = list(function.constraints)
        self.equality = Equality(function.symbols, self.assumed)
        self.rules = None
        if rules is not None:
            self.rules = rules(dict(function.symbols), list(function.constraints))

    def run(self) -> None:
        self._block(self.function.body, self.function, isolated=True)
        for value in self.defined:
            if len(value.uses) != self.uses.get(id(value), 0):
                count = self.uses.get(id(value), 0)
                _fault(f"{value!r} lists {len(value.uses)} uses, has {count}", value.op)

    def _block(self, block: Block, parent: Op | Function, isolated: bool) -> None:
        outside, equality, assumed = self.visible, self.equality, self.assumed
        bound = set(self.bound)
        self.visible = set() if isolated else set(outside)
        if extra := requirements(block):
            self.assumed = [*assumed, *extra]
            self.equality = Equality(self.function.symbols, self.assumed)
        at = parent if isinstance(parent, Op) else None
        if block.parent is not parent:
            _fault("a block does not know the op that holds it", at)
        for i, value in enumerate(block.args):
            if value.owner is not block or value.index != i:
                _fault(f"argument {i} of a block has a wrong owner or index", at)
            self._define(value, None)
        previous: Op | None = None
        op = block.first
        while op is not None:
            if op.block is not block or op.prev is not previous:
                _fault(f"{op.name} has a broken link to its block or the op before it", op)
            self._op(op)
            previous, op = op, op.next
        if block.last is not previous:
            _fault("the block's last op is not the end of its list", previous)
        self._check_end(block, at)
        self.visible, self.equality, self.assumed = outside, equality, assumed
        if self.bound != bound:
            self.bound, self.known_dims = bound, set()

    def _check_end(self, block: Block, parent: Op | None) -> None:
        last = block.last
        wanted = ("func.return",) if parent is None else REGION_TERMINATORS
        if last is None or last.name not in wanted:
            _fault(f"a block must end with {' or '.join(wanted)}", last or parent)
        if parent is not None and last.name == "cuvil.yield":
            self._check_region(block, parent)

    def _check_region(self, block: Block, parent: Op) -> None:
        """Arguments stand for operands, what is yielded for results."""
        arguments = [v.type for v in parent.operands]
        results = [v.type for v in parent.results]
        if is_control(parent):
            arguments, results = argument_types(parent), yielded_types(parent)
        have = [v.type for v in block.terminator.operands]
        self._same(have, results, "the yielded types differ from the results'", parent)
        have = [v.type for v in block.args]
        self._same(have, arguments, "the arguments' types differ from the operands'", parent)

    def _define(self, value: Value, op: Op | None) -> None:
        self.visible.add(id(value))
        self.defined.append(value)
        self._declared(value.type.shape, op)

    def _declared(self, dims: Iterable[object], op: Op | None) -> None:
        """Every symbol in these dims belongs to the function; each expression is read once."""
        for dim in dims:
            if type(dim) is int or id(dim) in self.known_dims:
                continue
            for name in attr_symbols(dim):
                if name not in self.function.symbols:
                    _fault(f"the symbol {name} in {dim} is not declared by the function", op)
                if name in self.late and name not in self.bound:
                    _fault(f"the symbol {name} in {dim} is not bound before it", op)
            self.known_dims.add(id(dim))

    def _op(self, op: Op) -> None:
        for i, value in enumerate(op.operands):
            if id(value) not in self.visible:
                _fault(f"operand {i} of {op.name} is not defined before it", op)
            if value.uses.get((id(op), i)) is not op:
                _fault(f"operand {i} of {op.name} does not list this use", op)
            self.uses[id(value)] = self.uses.get(id(value), 0) + 1
        if BINDS in op.attrs:
            self._bind(op)
        for value in op.attrs.values():
            if isinstance(value, (tuple, list)):
                self._declared(value, op)
            elif isinstance(value, Expr):
                self._declared((value,), op)
        if op.name in TERMINATORS and op.next is not None:
            _fault(f"{op.name} is followed by another op", op)
        if self.legal is not None:
            reason = self.legal(op)
            if reason is not None:
                _fault(f"{op.name} is not legal here: {reason}", op)
        if is_control(op) and (fault := signature_fault(op)) is not None:
            _fault(f"{op.name} {fault}", op)
        if is_keeping(op) and (fault := keeping_fault(op)) is not None:
            _fault(f"{op.name} {fault}", op)
        for region in op.regions:
            self._block(region, op, isolated=True)
        for i, result in enumerate(op.results):
            if result.owner is not op or result.index != i:
                _fault(f"result {i} of {op.name} has a wrong owner or index", op)
            self._define(result, op)
        free = op.regions or op.name in TERMINATORS or op.name == REQUIRE or is_keeping(op)
        if self.rules is not None and not free:
            self._infer(op, self.rules)

    def _bind(self, op: Op) -> None:
        for name in bound_by(op):
            if name in self.bound or self.late[name] is not op:
                _fault(f"the symbol {name} is bound twice", op)
            self.bound.add(name)

    def _infer(self, op: Op, rules: TypeRules) -> None:
        try:
            inferred = rules(op.name, [v.type for v in op.operands], op.attrs, op.loc)
        except CuvilError as error:
            _fault(f"the type rule of {op.name} refuses it: {error.message}", op)
        self._same(
            [v.type for v in op.results], self._rename(inferred, op),
            f"the types of {op.name} differ from what its rule infers", op,
        )  # fmt: skip

    def _rename(self, inferred: list[TensorType], op: Op) -> list[TensorType]:
        """Symbols that the rule has just invented become the ones that the results have."""
        table: dict[str, Dim] = {}
        for new, result in zip(inferred, op.results):
            for dim, kept in zip(new.shape, result.type.shape):
                name = str(dim)
                if dim != kept and name.isidentifier() and name not in self.function.symbols:
                    table.setdefault(name, kept)
        if not table:
            return inferred
        return [t.substitute(table) for t in inferred]

    def _same(
        self, have: list[TensorType], want: list[TensorType], message: str, op: Op
    ) -> None:
        if have == want:
            return
        same = len(have) == len(want) and all(
            a.dtype == b.dtype
            and a.rank == b.rank
            and all(self.equality.proved(x, y) for x, y in zip(a.shape, b.shape, strict=True))
            for a, b in zip(have, want, strict=True)
        )
        if not same:
            _fault(f"{message}: {_list(have)} and {_list(want)}", op)


def _list(types: list[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"
