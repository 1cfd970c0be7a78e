"""What an operator is: the one record that every stage reads.

An operator is defined once, in its family's file, by an :class:`OpDef`: its operands and
attributes, its type rule, its NumPy reference (the definition of what it computes), its cost, its
tolerance class, its fusion class and, for a *map*, the C++ expression that computes one element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import DType, Shape, TensorType
from cuvil.sym.constraint import BROADCAST, Constraint
from cuvil.sym.equality import as_choice
from cuvil.sym.expr import Dim, Expr, add, mul, symbol
from cuvil.sym.facts import Facts
from cuvil.sym.known import KnownFacts
from cuvil.sym.plain import plain

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]

FUSION_CLASSES = ("source", "map", "movement", "reduce", "contraction", "kernel", "control")
TOLERANCE_CLASSES = ("exact", "close", "accumulated")


class ShapeContext:
    """Collects what type rules learn: bounds of symbols, and constraints with their origin."""

    def __init__(
        self,
        symbols: dict[str, tuple[int, int | None]] | None = None,
        constraints: list[Constraint] | None = None,
        origin: str = "",
        known: KnownFacts | None = None,
    ) -> None:
        self.symbols = symbols if symbols is not None else {}
        self.constraints = constraints if constraints is not None else []
        self.origin = origin
        self._known = known or KnownFacts()

    @property
    def facts(self) -> Facts:
        """Bounds known so far, and the inequalities that were required."""
        return self._known.of(self.symbols, self.constraints)

    def new_symbol(self, prefix: str, low: int = 0, high: int | None = None) -> Expr:
        """A symbol nobody has yet, with inclusive bounds."""
        name, k = prefix, 0
        while name in self.symbols:
            k += 1
            name = f"{prefix}_{k}"
        self.symbols[name] = (low, high)
        return symbol(name)

    def require(self, left: Dim, relation: str, right: Dim, why: str) -> None:
        """Record a constraint; raise at once if it can never hold."""
        constraint = Constraint(left, relation, right, f"{why}, {self.origin}".strip(", "))
        known = constraint.known()
        if known is False:
            raise InvalidModelError(
                f"{why}: needs {left} {relation} {right}",
                where=self.origin,
                hint="check the shapes that reach this operator",
            )
        if known is None and not self._proved(constraint) and constraint not in self.constraints:
            for part in self._plainly(constraint):
                if not self._proved(part) and part not in self.constraints:
                    self.constraints.append(part)

    def _plainly(self, constraint: Constraint) -> tuple[Constraint, ...]:
        """What it comes to within the bounds of its symbols."""
        found = plain(constraint, self.symbols)
        return (constraint,) if found is None else found

    def _proved(self, constraint: Constraint) -> bool:
        difference = add(constraint.left, mul(constraint.right, -1))
        if constraint.relation == ">=":
            return self.facts.nonnegative(difference)
        if constraint.relation == "<=":
            return self.facts.nonnegative(mul(difference, -1))
        return False

    def same(self, a: Dim, b: Dim, why: str) -> Dim:
        """Require a == b; returns the one that is better known.

        min(n, c) == n is required as n <= c, which says when it holds, and is n from then on.
        """
        if a == b:
            return a
        for value, other in ((a, b), (b, a)):
            choice = as_choice(value)
            if choice is not None and other in choice[1:]:
                kind, left, right = choice
                rest = right if other == left else left
                self.require(other, "<=" if kind == "min" else ">=", rest, why)
                return other
        self.require(a, "==", b, why)
        return a if isinstance(a, int) else b

    def broadcast(self, shapes: Sequence[Shape], why: str) -> Shape:
        """NumPy broadcasting of several shapes (aligned at the end); unknown dims must agree."""
        rank = max((len(s) for s in shapes), default=0)
        result: list[Dim] = []
        for axis in range(rank):
            current: Dim = 1
            for shape in shapes:
                at = axis - rank + len(shape)
                if at < 0 or shape[at] == 1:
                    continue
                if current == 1:
                    current = shape[at]
                else:
                    current = self.same(current, shape[at], f"{why}: {BROADCAST} {axis}")
            result.append(current)
        return tuple(result)


@dataclass(frozen=True)
class Cost:
    """Work of one execution: floating-point (or integer) operations; bytes are derived."""

    flops: Dim


Infer = Callable[[ShapeContext, Sequence[TensorType], Attrs], list[TensorType]]
Reference = Callable[[Sequence[Array], Attrs, Sequence[TensorType]], list[Array]]
Scalar = Callable[[Sequence[str], Sequence[DType], DType], str]
CostRule = Callable[[Sequence[TensorType], Sequence[TensorType], Attrs], Cost]


def elements_cost(
    operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs
) -> Cost:
    """One operation an output element."""
    return Cost(results[0].elements)


@dataclass(frozen=True)
class OpDef:
    """The definition of an operator. ``reference`` also gets the result types, for their dtypes
    and concrete shapes (symbols already replaced by integers)."""

    name: str
    fusion: str
    infer: Infer
    reference: Reference
    operands: tuple[int, int | None]
    attrs: Mapping[str, str] = field(default_factory=dict)
    tolerance: str = "exact"
    cost: CostRule = elements_cost
    scalar: Scalar | None = None
    source: str = ""  # C++ text that the code of a registered operator needs
    doc: str = ""

    def __post_init__(self) -> None:
        assert self.fusion in FUSION_CLASSES, self.fusion
        assert self.tolerance in TOLERANCE_CLASSES, self.tolerance


def same_dtype(types: Sequence[TensorType], name: str) -> DType:
    """The dtype all operands share. Raises InvalidModelError when they differ."""
    first = types[0].dtype
    for t in types[1:]:
        if t.dtype != first:
            raise InvalidModelError(
                f"{name} needs operands of one dtype, got {', '.join(str(x.dtype) for x in types)}",
                hint="insert a cast in the model",
            )
    return first


def same_shape(ctx: ShapeContext, types: Sequence[TensorType], name: str) -> Shape:
    """The shape all operands share; symbolic dims are required equal."""
    first = types[0].shape
    for t in types[1:]:
        if len(t.shape) != len(first):
            raise InvalidModelError(f"{name} needs operands of one rank, got {types[0]} and {t}")
        first = tuple(
            ctx.same(a, b, f"{name}: dimension {i}")
            for i, (a, b) in enumerate(zip(first, t.shape, strict=True))
        )
    return first


def normalize_axis(axis: int, rank: int, name: str) -> int:
    """A possibly negative axis to 0..rank-1. Raises InvalidModelError outside."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise InvalidModelError(f"{name}: axis {axis} is outside rank {rank}")
    return axis % rank if rank else 0
