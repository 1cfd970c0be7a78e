"""Formulas over tensors written as formulas: operators that emit maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, Union

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, DType

Number = Union[int, float, bool]
Same = TypeVar("Same", bound="Term")


@dataclass(frozen=True, eq=False)
class Term:
    """A tensor in a formula. Numbers take its dtype; shapes broadcast."""

    e: Emitter
    value: Value

    @property
    def dtype(self) -> DType:
        return self.value.type.dtype

    def of(self: Same, value: Value) -> Same:
        """Another tensor of this kind and graph."""
        return type(self)(self.e, value)

    def map(self: Same, name: str, *others: Operand) -> Same:
        """``name(self, *others)``"""
        return self.of(self.e.map(name, self.value, *(self.lift(o).value for o in others)))

    def lift(self: Same, other: Operand) -> Same:
        """A number as a constant of this dtype."""
        if isinstance(other, Term):
            return self.of(other.value)
        return self.of(self.e.scalar(other, self.dtype))

    def cast(self: Same, dtype: DType) -> Same:
        return self.of(self.e.cast(self.value, dtype))

    def where(self: Same, yes: Operand, no: Operand) -> Same:
        """``yes`` where this condition holds; one of the two must be a tensor."""
        if isinstance(yes, Term):
            no = yes.lift(no)
        else:
            assert isinstance(no, Term)
            yes = no.lift(yes)
        condition = self.e.cast(self.value, BOOL)
        return self.of(self.e.map("select", condition, yes.value, no.value))

    def __add__(self: Same, other: Operand) -> Same:
        return self.map("add", other)

    def __radd__(self: Same, other: Number) -> Same:
        return self.lift(other).map("add", self)

    def __sub__(self: Same, other: Operand) -> Same:
        return self.map("sub", other)

    def __rsub__(self: Same, other: Number) -> Same:
        return self.lift(other).map("sub", self)

    def __mul__(self: Same, other: Operand) -> Same:
        return self.map("mul", other)

    def __rmul__(self: Same, other: Number) -> Same:
        return self.lift(other).map("mul", self)

    def __truediv__(self: Same, other: Operand) -> Same:
        return self.map("div", other)

    def __rtruediv__(self: Same, other: Number) -> Same:
        return self.lift(other).map("div", self)

    def __neg__(self: Same) -> Same:
        return self.map("neg")

    def __abs__(self: Same) -> Same:
        return self.map("abs")

    def __invert__(self: Same) -> Same:
        return self.map("not")

    def __and__(self: Same, other: Term) -> Same:
        return self.map("and", other)

    def __or__(self: Same, other: Term) -> Same:
        return self.map("or", other)

    def __lt__(self: Same, other: Operand) -> Same:
        return self.map("lt", other)

    def __le__(self: Same, other: Operand) -> Same:
        return self.map("le", other)

    def __gt__(self: Same, other: Operand) -> Same:
        return self.map("gt", other)

    def __ge__(self: Same, other: Operand) -> Same:
        return self.map("ge", other)

    def equals(self: Same, other: Operand) -> Same:
        return self.map("eq", other)

    def polynomial(self: Same, coefficients: Sequence[float]) -> Same:
        """By Horner's scheme, the highest power first."""
        out = self.lift(coefficients[0])
        for number in coefficients[1:]:
            out = out * self + number
        return out

    def chebyshev(self: Same, coefficients: Sequence[float]) -> Same:
        """Half the sum of a Chebyshev series by Clenshaw's recurrence, the highest term first;
        the argument is twice the polynomials' own (chbevl of the Cephes library)."""
        older, old, new = self.lift(0.0), self.lift(0.0), self.lift(coefficients[0])
        for number in coefficients[1:]:
            older, old = old, new
            new = self * old - older + number
        return 0.5 * (new - older)


Operand = Union[Term, int, float, bool]
