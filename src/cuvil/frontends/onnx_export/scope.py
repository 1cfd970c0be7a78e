"""A graph, a function or a subgraph under construction.

A subgraph sees what stands around it; a function sees its inputs alone, among which are the symbols
that its shapes mention, each as an i64 vector of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from cuvil.frontends.onnx_export.types import Array, onnx_type, tensor_of
from cuvil.ir.core import Value
from cuvil.ir.types import DType, TensorType
from cuvil.sym.expr import Atom, Dim, Expr
from cuvil.sym.facts import Facts

Lazy = Callable[["Scope"], str]


class Names:
    """Names that nobody has yet."""

    def __init__(self, taken: Sequence[str] = ()) -> None:
        self._counts: dict[str, int] = dict.fromkeys(taken, 1)

    def fresh(self, wish: str) -> str:
        """``wish``, with a number if it is taken."""
        name = wish
        while name in self._counts:
            count = self._counts[wish]
            self._counts[wish] = count + 1
            name = f"{wish}_{count}"
        self._counts[name] = 1
        return name


class Constants:
    """The initializers of a model by name; equal small ones are one."""

    LIMIT = 1024  # bytes up to which constants are compared

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._known: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self._large: dict[int, str] = {}

    def add(self, array: Array, name: Callable[[], str]) -> str:
        """The name of an initializer with this content."""
        if array.nbytes > self.LIMIT:
            known = self._large.get(id(array))
            if known is None:
                known = self._large[id(array)] = name()
                self.arrays[known] = array
            return known
        key = (array.tobytes(), str(array.dtype), array.shape)
        if key not in self._known:
            self._known[key] = name()
            self.arrays[self._known[key]] = array
        return self._known[key]


class Scope:
    """Where nodes are added. ``constants`` None: constants are nodes here, as in a function."""

    def __init__(
        self, names: Names, facts: Facts, constants: Constants | None, outer: Scope | None = None
    ) -> None:
        self.names = names
        self.facts = facts
        self.constants = constants
        self.outer = outer
        self.nodes: list[NodeProto] = []
        self.place = ""  # what nodes are named after
        self.symbols: dict[str, str] = {}
        self.asked: list[str] = []  # symbols that became inputs of this function
        self._values: dict[int, str] = {}
        self._lazy: dict[int, Lazy] = {}
        self._dims: dict[Dim | tuple[Dim, ...], str] = {}
        self._own: dict[tuple[bytes, str, tuple[int, ...]], str] = {}

    # Nodes

    def node(self, op: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        """Add a node of one output; returns the output's name."""
        return self.many(op, inputs, 1, out=out, **attributes)[0]

    def many(
        self, op: str, inputs: Sequence[str], outputs: int, out: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node; trailing inputs that are left out ("") are dropped."""
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        made = [self.names.fresh(out or op.lower()) for _ in range(outputs)]
        domain = attributes.pop("domain", "")
        node = helper.make_node(op, given, made, domain=domain, **attributes)
        if self.place:
            node.name = self.names.fresh(f"{self.place}/{op}")
        self.nodes.append(node)
        return made

    def constant(self, array: Array, name: str = "constant") -> str:
        """The name of a constant."""
        if self.constants is not None:
            return self.constants.add(array, lambda: self.names.fresh(name))
        key = (array.tobytes(), str(array.dtype), array.shape)
        if key not in self._own:
            self._own[key] = self.node("Constant", value=tensor_of(array, ""), out=name)
        return self._own[key]

    def number(self, value: float | int | bool, dtype: DType) -> str:
        """A constant of rank 0."""
        return self.constant(np.asarray(value).astype(dtype.numpy), "number")

    def ints(self, values: Sequence[int]) -> str:
        """An i64 vector."""
        return self.constant(np.asarray(list(values), np.int64), "ints")

    def cast(self, name: str, source: DType, to: DType, **attributes: Any) -> str:
        """The value in another type."""
        if source == to:
            return name
        return self.node("Cast", name, to=onnx_type(to), **attributes)

    # Values

    def define(self, value: Value, name: str) -> None:
        """Say what a value is called."""
        self._values[id(value)] = name

    def defer(self, value: Value, make: Lazy) -> None:
        """Say how a value is made where somebody reads it."""
        self._lazy[id(value)] = make

    def name(self, value: Value) -> str:
        """What a value is called; it is made if it was deferred."""
        found = self._find(value)
        assert found is not None, value
        return found

    def _find(self, value: Value) -> str | None:
        key = id(value)
        if key not in self._values and key in self._lazy:
            self._values[key] = self._lazy[key](self)
        if key in self._values or self.outer is None:
            return self._values.get(key)
        return self.outer._find(value)

    # Sizes

    def symbol(self, name: str) -> str:
        """A symbol's value, an i64 vector of one element."""
        if name in self.symbols:
            return self.symbols[name]
        if self.outer is not None:
            return self.outer.symbol(name)
        self.asked.append(name)
        self.symbols[name] = self.names.fresh(name)
        return self.symbols[name]

    def knows(self, name: str) -> bool:
        """Whether a symbol has a value here without being asked for."""
        return name in self.symbols or (self.outer is not None and self.outer.knows(name))

    def dim(self, dim: Dim) -> str:
        """A size, an i64 vector of one element."""
        if isinstance(dim, int):
            return self.ints([dim])
        known = self._known_dim(dim)
        if known is None:
            known = self._dims[dim] = self._sum(dim)
        return known

    def _known_dim(self, dim: Dim | tuple[Dim, ...]) -> str | None:
        if dim in self._dims or self.outer is None:
            return self._dims.get(dim)
        return self.outer._known_dim(dim)

    def shape(self, dims: Sequence[Dim]) -> str:
        """Sizes as an i64 vector."""
        if all(isinstance(d, int) for d in dims):
            return self.ints([d for d in dims if isinstance(d, int)])
        if len(dims) == 1:
            return self.dim(dims[0])
        key = tuple(dims)
        known = self._known_dim(key)
        if known is None:
            known = self.node("Concat", *map(self.dim, dims), axis=0, out="shape")
            self._dims[key] = known
        return known

    def _sum(self, dim: Expr) -> str:
        total = ""
        for monomial, coefficient in dim.terms:
            factors = [self._atom(atom) for atom, power in monomial for _ in range(power)]
            negative = bool(total) and coefficient < 0
            size = -coefficient if negative else coefficient
            if size != 1 or not factors:
                factors.append(self.ints([size]))
            term = factors[0]
            for factor in factors[1:]:
                term = self.node("Mul", term, factor, out="size")
            kind = "Sub" if negative else "Add"
            total = self.node(kind, total, term, out="size") if total else term
        return total

    def _atom(self, atom: Atom) -> str:
        if atom.kind == "symbol":
            return self.symbol(atom.name)
        left, right = atom.args
        a, b = self.dim(left), self.dim(right)
        if atom.kind in ("max", "min"):
            return self.node(atom.kind.capitalize(), a, b, out="size")
        if atom.kind == "mod":
            return self.node("Mod", a, b, out="size")
        if not (self.facts.nonnegative(left) and self.facts.positive(right)):
            a = self.node("Sub", a, self.node("Mod", a, b, out="size"), out="size")
        return self.node("Div", a, b, out="size")

    # Parts

    def inner(self) -> Scope:
        """A subgraph of this one."""
        return Scope(self.names, self.facts, self.constants, self)

    def output(self, name: str) -> str:
        """The name under which a subgraph gives a value: one that a node of its own made, once."""
        made = any(name in node.output for node in self.nodes)
        return name if made else self.node("Identity", name)


def same_rank(scope: Scope, name: str, type: TensorType, rank: int) -> str:
    """A value with leading dimensions of one, so that it has ``rank``."""
    if type.rank == rank:
        return name
    return scope.node("Unsqueeze", name, scope.ints(range(rank - type.rank)))
