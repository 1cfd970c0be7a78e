"""The face of a model: its inputs, outputs, symbols and constraints, and how shapes bind symbols.

Everything here is plain data (names, dtype names, integers, expression text), so that it can be
written into a package and compiled into a library's tables unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cuvil.errors import InputError, InvalidModelError, ShapeConstraintError
from cuvil.errors.words import counted, were_given
from cuvil.ir.types import DTYPES, DType
from cuvil.sym.constraint import GIVEN, ONE_NAME, Constraint, in_words
from cuvil.sym.expr import Dim, Expr, evaluate, symbols_of
from cuvil.sym.parse import parse_constraint, parse_dim

_OTHER_SIZES = "pass inputs of sizes that fit, or compile with other dynamic dims or constraints"
_OPEN_SIZE = "pass an input of that size, or compile with this axis among dynamic_dims"

MAX_RANK = 16
MAX_SYMBOL = (1 << 31) - 1  # so that a product of two symbols still fits 64 bits
MAX_BYTES = (1 << 47) - 1  # the largest tensor any 64-bit address space of today can hold


@dataclass(frozen=True)
class TensorSpec:
    """One input or output: a dim is an integer, or the text of an expression over symbols."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] = ()

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The shape with its texts parsed. Raises InvalidModelError on text that isn't a dim."""
        return tuple(parse_dim(d) for d in self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element(self) -> DType:
        """The element type that ``dtype`` names."""
        return DTYPES[self.dtype]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(str(d) for d in self.shape)}]"


@dataclass(frozen=True)
class SymbolSpec:
    """A symbol's inclusive bounds; ``max`` None means up to MAX_SYMBOL.

    A late symbol gets its value during a call: ``source`` says from what. It is "" for a symbol
    that the inputs' shapes tell. ``origin`` says who asked for the symbol and its bounds.
    """

    name: str
    min: int = 0
    max: int | None = None
    source: str = ""
    origin: str = ""

    @property
    def late(self) -> bool:
        return bool(self.source)

    @property
    def highest(self) -> int:
        return MAX_SYMBOL if self.max is None else min(self.max, MAX_SYMBOL)

    @property
    def rule(self) -> str:
        """The bounds in words: ``1 <= seq <= 512``."""
        upper = "" if self.max is None else f" <= {self.max}"
        return f"{self.min} <= {self.name}{upper}"


@dataclass(frozen=True)
class ConstraintSpec:
    """The text of a predicate over symbols, and who asked for it."""

    text: str
    origin: str = GIVEN

    @cached_property
    def parsed(self) -> Constraint:
        """The predicate. Raises InvalidModelError on text that isn't one."""
        return parse_constraint(self.text, self.origin)


@dataclass(frozen=True)
class Binding:
    """``symbol`` is read off axis ``axis`` of input ``input``: dim == slope * symbol + offset."""

    symbol: str
    input: int
    axis: int
    slope: int = 1
    offset: int = 0


@dataclass(frozen=True)
class Signature:
    """Inputs, outputs, symbols and constraints, each in a fixed order."""

    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    symbols: tuple[SymbolSpec, ...] = ()
    constraints: tuple[ConstraintSpec, ...] = ()
    checks: tuple[ConstraintSpec, ...] = ()  # of parts of the program: checked where they are run

    def check(self) -> None:
        """Raise InvalidModelError unless it is complete and every symbol can be bound."""
        for kind, names in (
            ("input", [t.name for t in self.inputs]),
            ("output", [t.name for t in self.outputs]),
            ("symbol", [s.name for s in self.symbols]),
        ):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise InvalidModelError(f"two {kind}s are named {twice[0]!r}")
        declared = {s.name for s in self.symbols}
        for spec in self.inputs:
            _check_tensor(spec, declared - self.late)
        for spec in self.outputs:
            _check_tensor(spec, declared)
        for symbol in self.symbols:
            if not symbol.name.isidentifier() or not 0 <= symbol.min <= symbol.highest:
                raise InvalidModelError(f"symbol {symbol.name!r} has bad bounds: {symbol.rule}")
        for constraint in self.numbered:
            unknown = constraint.parsed.symbols() - declared
            if unknown:
                raise InvalidModelError(
                    f"constraint {constraint.text!r} speaks of unknown {sorted(unknown)[0]!r}"
                )
        _ = self.bindings

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """Where each symbol that isn't late is read, in symbol order.

        Raises InvalidModelError where no input tells it.

        A dim that is the plain symbol is preferred; else the first that is linear in it alone.
        """
        plain: dict[str, Binding] = {}
        linear: dict[str, Binding] = {}
        for index, spec in enumerate(self.inputs):
            for axis, dim in enumerate(spec.dims):
                found = _linear(dim)
                if found is None:
                    continue
                name, slope, offset = found
                table = plain if (slope, offset) == (1, 0) else linear
                table.setdefault(name, Binding(name, index, axis, slope, offset))
        missing = [s.name for s in self.early if s.name not in plain and s.name not in linear]
        if missing:
            raise InvalidModelError(
                f"no input's shape tells the value of symbol {missing[0]!r}",
                hint=f"give some input a dimension that is {missing[0]!r} itself",
            )
        return tuple(plain.get(s.name) or linear[s.name] for s in self.early)

    @cached_property
    def early(self) -> tuple[SymbolSpec, ...]:
        """The symbols that the inputs' shapes tell."""
        return tuple(s for s in self.symbols if not s.late)

    @cached_property
    def late(self) -> frozenset[str]:
        """The symbols that get their values during a call."""
        return frozenset(s.name for s in self.symbols if s.late)

    def is_late(self, spec: TensorSpec) -> bool:
        """Whether the size of an output is known only once the call has computed it."""
        return any(symbols_of(d) & self.late for d in spec.dims)

    def bind(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """Symbol values for these input shapes, one shape an input, with everything checked but
        what needs the late ones, which are not among them.

        Raises InputError for a wrong count, ShapeConstraintError for a rank, dim, bound or
        constraint that doesn't hold; the message names the tensor, the dim, its value, the rule.
        """
        if len(shapes) != len(self.inputs):
            raise InputError(
                f"the model has {counted(len(self.inputs), 'input')}; {were_given(len(shapes))}"
            )
        for spec, shape in zip(self.inputs, shapes):
            if len(shape) != spec.rank:
                raise ShapeConstraintError(
                    f"input {spec.name!r} has rank {len(shape)}, shape {list(shape)}; "
                    f"expected rank {spec.rank}, [{', '.join(str(d) for d in spec.shape)}]"
                )
            if any(dim < 0 for dim in shape):
                raise ShapeConstraintError(f"input {spec.name!r} has a negative dim: {list(shape)}")
        table = {
            binding.symbol: self._value(binding, symbol, shapes)
            for binding, symbol in zip(self.bindings, self.early)
        }
        for spec, shape in zip(self.inputs, shapes):
            for axis, (dim, given) in enumerate(zip(spec.dims, shape)):
                if dim != given:
                    self._check_dim(spec, axis, dim, given, table)
        for constraint in self.constraints:
            if not constraint.parsed.symbols() & self.late:
                self.check_constraint(constraint, table)
        return table

    def output_shapes(self, table: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
        """The shape of each output, () for a late one whose symbols the table lacks.

        Raises ShapeConstraintError where no shape is possible.
        """
        unknown = self.late - table.keys()
        return tuple(
            () if unknown and self.is_late(spec) else _output_shape(spec, table)
            for spec in self.outputs
        )

    def check_symbol(self, name: str, value: int) -> None:
        """Raise ShapeConstraintError where a late symbol's value is outside its bounds."""
        spec = next(s for s in self.symbols if s.name == name)
        if not spec.min <= value <= spec.highest:
            raise ShapeConstraintError(
                f"the size {name} is {value}; allowed is {spec.min} <= {name} <= {spec.highest}",
                where=spec.source,
            )

    def _value(
        self, binding: Binding, symbol: SymbolSpec, shapes: Sequence[Sequence[int]]
    ) -> int:
        spec = self.inputs[binding.input]
        given = shapes[binding.input][binding.axis]
        value, rest = divmod(given - binding.offset, binding.slope)
        place = f"input {spec.name!r}, axis {binding.axis}"
        text = spec.shape[binding.axis]
        if rest:
            raise ShapeConstraintError(
                f"{place} is {given}; expected {text} for some integer {symbol.name}"
            )
        if not symbol.min <= value <= symbol.highest:
            means = "" if text == symbol.name else f", so {symbol.name} is {value}"
            raise ShapeConstraintError(
                f"{place} ({text}) is {given}{means}; allowed is {symbol.rule}",
                where=self.origin_of(symbol, value),
                hint=_OTHER_SIZES,
            )
        return value

    def origin_of(self, symbol: SymbolSpec, value: int | None = None) -> str:
        """Who asked for the bounds of a symbol: the constraints on it alone (those that exclude
        ``value``, if one is given), else who asked for the symbol."""
        own = [c for c in self.constraints if c.parsed.symbols() == {symbol.name}]
        if value is not None:
            own = [c for c in own if not _holds(c.parsed, {symbol.name: value})]
        said = [f"{c.text} ({in_words(c.origin)})" for c in own]
        return "; ".join(said) or symbol.origin or f"bounds of the dimension {symbol.name!r}"

    def _check_dim(
        self, spec: TensorSpec, axis: int, dim: Dim, given: int, table: Mapping[str, int]
    ) -> None:
        expected = _evaluate(dim, table)
        if expected == given:
            return
        text = str(spec.shape[axis])
        if isinstance(dim, int):
            rule, where, hint = text, "this size is fixed in the artifact", _OPEN_SIZE
        else:
            rule, where, hint = f"{text} = {expected}", self._where_bound(dim, table), _OTHER_SIZES
        raise ShapeConstraintError(
            f"input {spec.name!r}, axis {axis} is {given}; expected {rule}", where=where, hint=hint
        )

    def _where_bound(self, dim: Dim, table: Mapping[str, int]) -> str:
        used = symbols_of(dim)
        places = [
            f"{b.symbol} is {table[b.symbol]} by axis {b.axis} of {self.inputs[b.input].name!r}"
            for b in self.bindings
            if b.symbol in used
        ]
        origins = [f"{s.name} is {s.origin}" for s in self.early if s.name in used and s.origin]
        return "; ".join(places + origins)

    @property
    def numbered(self) -> tuple[ConstraintSpec, ...]:
        """Constraints and checks as the library numbers them."""
        return self.constraints + self.checks

    def check_constraint(self, spec: ConstraintSpec, table: Mapping[str, int]) -> None:
        """Raise ShapeConstraintError where a constraint does not hold at these values."""
        if _holds(spec.parsed, table):
            return
        used = spec.parsed.symbols()
        values = ", ".join(f"{n} = {v}" for n, v in table.items() if n in used)
        places = [
            f"{b.symbol} is axis {b.axis} of input {self.inputs[b.input].name!r}"
            for b in self.bindings
            if b.symbol in used
        ]
        places += [f"{s.name} is {s.source}" for s in self.symbols if s.late and s.name in used]
        where = "; ".join(places)
        raise ShapeConstraintError(
            f"the constraint {spec.text} ({in_words(spec.origin)}) does not hold: {values}",
            where=where,
            hint=ONE_NAME if _is_stretched(spec.parsed, table) else _OTHER_SIZES,
        )

    def __iter__(self) -> Iterator[TensorSpec]:
        return iter(self.inputs + self.outputs)


def _check_tensor(spec: TensorSpec, declared: set[str]) -> None:
    if spec.dtype not in DTYPES:
        raise InvalidModelError(f"tensor {spec.name!r} has unknown dtype {spec.dtype!r}")
    if spec.rank > MAX_RANK:
        raise InvalidModelError(f"tensor {spec.name!r} has rank {spec.rank}, over {MAX_RANK}")
    for dim in spec.dims:
        if isinstance(dim, int) and dim < 0:
            raise InvalidModelError(f"tensor {spec.name!r} has the negative dim {dim}")
        unknown = symbols_of(dim) - declared
        if unknown:
            raise InvalidModelError(
                f"tensor {spec.name!r} has a dim over the undeclared symbol {sorted(unknown)[0]!r}"
            )


def _linear(dim: Dim) -> tuple[str, int, int] | None:
    """(name, slope, offset) where ``dim`` is slope * name + offset, else None."""
    if not isinstance(dim, Expr):
        return None
    name, slope, offset = "", 0, 0
    for monomial, coefficient in dim.terms:
        if not monomial:
            offset = coefficient
            continue
        atom, power = monomial[0]
        if name or len(monomial) > 1 or power != 1 or atom.kind != "symbol":
            return None
        name, slope = atom.name, coefficient
    return name, slope, offset


def size_at(text: str | int, table: Mapping[str, int]) -> int | None:
    """The value of a size written as text; None where it divides by zero or names a symbol that
    the table lacks. Raises InvalidModelError where it is no expression."""
    dim = parse_dim(text)
    return _evaluate(dim, table) if symbols_of(dim) <= table.keys() else None


def _evaluate(dim: Dim, table: Mapping[str, int]) -> int | None:
    """The value, or None where it divides by zero."""
    try:
        return evaluate(dim, table)
    except ZeroDivisionError:
        return None


def _holds(constraint: Constraint, table: Mapping[str, int]) -> bool:
    """Whether it is true at these values; what divides by zero isn't."""
    try:
        return constraint.holds(table)
    except ZeroDivisionError:
        return False


def _is_stretched(constraint: Constraint, table: Mapping[str, int]) -> bool:
    """Whether it fails for a size of 1 that broadcasting would stretch."""
    return constraint.stretches and 1 in (
        _evaluate(constraint.left, table), _evaluate(constraint.right, table)
    )  # fmt: skip


def _output_shape(spec: TensorSpec, table: Mapping[str, int]) -> tuple[int, ...]:
    shape = []
    total = spec.element.size
    for axis, dim in enumerate(spec.dims):
        value = _evaluate(dim, table)
        if value is None or value < 0:
            would = "divides by zero" if value is None else f"would be {value}"
            values = ", ".join(f"{n} = {table[n]}" for n in sorted(symbols_of(dim)))
            raise ShapeConstraintError(
                f"output {spec.name!r}, axis {axis} ({spec.shape[axis]}) {would}; {values}",
                hint="these input shapes are too small for the model",
            )
        total *= max(value, 1)
        shape.append(value)
    if total > MAX_BYTES:
        raise ShapeConstraintError(f"output {spec.name!r} of shape {shape} is too large")
    return tuple(shape)
