"""From torch's symbols and sympy expressions to Cuvil's dims and constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import reduce
from typing import Any

import sympy
import torch

from cuvil.errors import ShapeConstraintError
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, Expr, add, ceildiv, floordiv, maximum, minimum, mod, mul, product
from cuvil.sym.facts import Facts

_RELATIONS = {
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.Le: "<=",
    sympy.Lt: "<",
    sympy.Ge: ">=",
    sympy.Gt: ">",
}
_NEGATED = {"==": "!=", "!=": "==", "<=": ">", "<": ">=", ">=": "<", ">": "<="}
_MAX_POWER = 8
_EXACT = 1 << 20


class Untranslatable(Exception):
    """An expression has a part that Cuvil's dims can't say."""


class TorchSymbols:
    """The dim that each of torch's symbols (``s77``, ``u0``) stands for.

    ``assumed`` are conditions under which the dims given so far are right. ``ranges`` are the
    values that torch knows a symbol to have, by its name. ``bounded`` are late symbols whose
    upper end Cuvil knows better: torch takes it from one operand before that is broadcast.
    ``example`` are the sizes that torch traced with, by its symbols.
    """

    def __init__(
        self, ranges: Mapping[Any, Any] | None = None, example: Mapping[Any, Any] | None = None
    ) -> None:
        self.table: dict[str, Dim] = {}
        self.assumed: list[Constraint] = []
        self.bounded: set[str] = set()
        self.example = dict(example or {})
        self.place = ""  # what is being translated
        self.ranges = {str(key): span for key, span in (ranges or {}).items()}

    def range_of(self, size: Any) -> tuple[int, int | None] | None:
        """The inclusive bounds of a lone symbol that can't be negative; else None."""
        span = self.ranges.get(str(size.node.expr))
        if span is None or not span.lower.is_Integer or int(span.lower) < 0:
            return None
        bounded = span.upper.is_Integer and int(span.upper) < 1 << 31
        return int(span.lower), int(span.upper) if bounded else None

    def is_own_bound(self, constraint: Constraint) -> bool:
        """Whether it is torch's upper end of a symbol in ``bounded``."""
        return str(constraint.left) in self.bounded and constraint.relation in ("<=", "<")

    def dim(self, size: Any) -> Dim:
        """An ``int`` or ``SymInt`` as a dim. Raises Untranslatable."""
        if isinstance(size, int):
            return size
        return self.expr(size.node.expr)

    def shape(self, sizes: Sequence[Any]) -> tuple[Dim, ...]:
        """Each size as a dim. Raises Untranslatable."""
        return tuple(self.dim(s) for s in sizes)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names that symbols are given meanwhile are forgotten: each run of a region, and each
        translation of a graph, has sizes of its own."""
        kept = dict(self.table)
        try:
            yield
        finally:
            self.table.clear()
            self.table.update(kept)

    def bind(self, size: Any, value: Dim) -> bool:
        """Let a symbol that nobody has named yet stand for ``value``; False if it isn't one."""
        if isinstance(size, int):
            return False
        expression = size.node.expr
        if isinstance(expression, sympy.Symbol) and expression.name not in self.table:
            self.table[expression.name] = value
            return True
        return False

    def expr(self, expression: Any) -> Dim:
        """A sympy expression over integers as a dim. Raises Untranslatable."""
        if isinstance(expression, int) or expression.is_Integer:
            return int(expression)
        if isinstance(expression, sympy.Symbol):
            if expression.name not in self.table:
                raise Untranslatable(f"{expression} has no name")
            return self.table[expression.name]
        if isinstance(expression, sympy.Mul):
            return self._product(expression)
        kind = type(expression).__name__
        if kind in ("TruncToInt", "FloorToInt", "CeilToInt"):
            try:
                top, bottom = self._exact(expression.args[0])
            except Untranslatable:
                if kind == "CeilToInt":
                    raise
                return self._decimal(expression.args[0])
            return ceildiv(top, bottom) if kind == "CeilToInt" else floordiv(top, bottom)
        rule = _FUNCTIONS.get(kind)
        if rule is None:
            raise Untranslatable(f"{type(expression).__name__} in {expression}")
        dims = [self.expr(arg) for arg in expression.args]
        found = rule(dims)
        if kind in _DIVISIONS and not isinstance(dims[1], int) and not isinstance(found, int):
            self._assume_divisor(dims[1], found)
        return found

    def _assume_divisor(self, by: Dim, found: Expr) -> None:
        """A division by a size that may be 0 asks for a size that isn't; one that comes out
        exactly asks for nothing."""
        atoms = [atom for monomial, _ in found.terms for atom, _ in monomial]
        rule = Constraint(by, ">=", 1, f"a division by {by}{self.place and ' at '}{self.place}")
        if any(by in atom.args[1:] for atom in atoms) and rule not in self.assumed:
            self.assumed.append(rule)

    def _likely(self, condition: Any) -> tuple[bool, bool]:
        """Sorts conditions: first those that hold for the example's sizes, and do so for others."""
        holds = condition.xreplace(self.example) == sympy.true
        one_size = isinstance(condition, sympy.Eq) and any(a.is_Integer for a in condition.args)
        lone = one_size and any(isinstance(a, sympy.Symbol) for a in condition.args)
        return not holds, lone

    def _product(self, expression: Any) -> Dim:
        """A product whose rational coefficient is an exact division (torch's CleanDiv)."""
        coefficient, rest = expression.as_coeff_Mul()
        if not coefficient.is_Rational:
            raise Untranslatable(f"{coefficient} in {expression}")
        factors = [self.expr(arg) for arg in sympy.Mul.make_args(rest)]
        whole = mul(product(factors), int(coefficient.p))
        return floordiv(whole, int(coefficient.q))

    def _exact(self, expression: Any) -> tuple[Dim, int]:
        """A float expression over sizes as numerator and denominator, where floats have no
        rounding to do: factors with few bits. (Sizes are not negative, so truncating is floor.)"""
        kind = type(expression).__name__
        if expression.is_number:
            ratio = Fraction(float(expression))
            if ratio < 0 or ratio.denominator > _EXACT or ratio.numerator > _EXACT:
                raise Untranslatable(f"the rounding of {expression}")
            return ratio.numerator, ratio.denominator
        if kind == "ToFloat":
            return self.expr(expression.args[0]), 1
        if kind == "IntTrueDiv":
            return self._quotient((self.expr(expression.args[0]), 1), expression.args[1])
        if kind == "FloatTrueDiv":
            return self._quotient(self._exact(expression.args[0]), expression.args[1])
        if not isinstance(expression, sympy.Mul):
            raise Untranslatable(f"{kind} in {expression}")
        top: Dim = 1
        bottom = 1
        for factor in expression.args:
            a, b = self._exact(factor)
            top, bottom = mul(top, a), bottom * b
        return top, bottom

    def _decimal(self, expression: Any) -> Dim:
        """The whole part of a size times a float that stands for a ratio p / q, such as 1.7.

        Between whole numbers the product is at least 1 / q away from one, far more than it is
        rounded. Where it should be whole, at multiples of q, a float below p / q can make it the
        number before, unless its error is at most half of the spacing of floats below a power of
        two (2**-54 of it): such multiples become a condition in ``assumed``.
        """
        factor, size = sympy.sympify(expression).as_coeff_Mul()
        ratio = Fraction(float(factor)).limit_denominator(_EXACT)
        if ratio <= 0 or float(ratio) != float(factor) or ratio.numerator > _EXACT:
            raise Untranslatable(f"the rounding of {expression}")
        if type(size).__name__ != "ToFloat":
            raise Untranslatable(f"the rounding of {expression}")
        dim, by = self.expr(size.args[0]), ratio.denominator
        if (ratio - Fraction(float(factor))) / ratio * 2**54 > 1:
            rule = Constraint(mod(dim, by), "!=", 0, f"torch's rounding of {float(factor)} * size")
            if rule not in self.assumed:
                self.assumed.append(rule)
        return floordiv(mul(dim, ratio.numerator), by)

    def _quotient(self, value: tuple[Dim, int], by: Any) -> tuple[Dim, int]:
        if not by.is_number or not float(by).is_integer() or float(by) <= 0:
            raise Untranslatable(f"the rounding of a division by {by}")
        divisor = value[1] * int(by)
        if divisor & (divisor - 1):
            raise Untranslatable(f"the rounding of a division by {by}")
        return value[0], divisor

    def constraints(self, condition: Any, origin: str) -> list[Constraint]:
        """A boolean sympy expression as constraints that all must hold. Raises Untranslatable.

        Of an alternative, one branch that is known to hold is enough (no constraint); otherwise
        one that holds for the example's sizes is demanded, which may refuse more than torch
        would, and never less.
        """
        if condition in (True, sympy.true):
            return []
        if isinstance(condition, sympy.And):
            return [c for arg in condition.args for c in self.constraints(arg, origin)]
        if isinstance(condition, sympy.Or):
            args = sorted(condition.args, key=self._likely)
            branches = [self.constraints(arg, origin) for arg in args]
            possible = [b for b in branches if all(c.known() is not False for c in b)]
            sure = [b for b in possible if all(c.known() is True for c in b)]
            return (sure or possible or branches)[0]
        if isinstance(condition, sympy.Not):
            inner = self.constraints(condition.args[0], origin)
            if len(inner) != 1:
                raise Untranslatable(str(condition))
            c = inner[0]
            return [Constraint(c.left, _NEGATED[c.relation], c.right, origin)]
        relation = _RELATIONS.get(type(condition))
        if relation is None:
            raise Untranslatable(str(condition))
        left, right = (self.expr(arg) for arg in condition.args)
        return [plain_bound(Constraint(left, relation, right, origin))]


def _only_power(args: Sequence[Dim]) -> Dim:
    base, exponent = args
    if not isinstance(exponent, int) or not 0 <= exponent <= _MAX_POWER:
        raise Untranslatable(f"{base} ** {exponent}")
    return product([base] * exponent)


def _sum(args: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for arg in args:
        total = add(total, arg)
    return total


_FUNCTIONS: dict[str, Callable[[Sequence[Dim]], Dim]] = {
    "Add": _sum,
    "Pow": _only_power,
    "PowByNatural": _only_power,
    "FloorDiv": lambda a: floordiv(a[0], a[1]),
    "CleanDiv": lambda a: floordiv(a[0], a[1]),
    "CeilDiv": lambda a: ceildiv(a[0], a[1]),
    "Mod": lambda a: mod(a[0], a[1]),
    "PythonMod": lambda a: mod(a[0], a[1]),
    "Max": lambda a: reduce(maximum, a),
    "Min": lambda a: reduce(minimum, a),
    "Identity": lambda a: a[0],
}


_DIVISIONS = ("FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod")


def plain_bound(constraint: Constraint) -> Constraint:
    """``min(c, s) == s`` as ``s <= c``, ``max(c, s) == s`` as ``s >= c``; others as they are."""
    if constraint.relation != "==":
        return constraint
    for a, b in (
        (constraint.left, constraint.right),
        (constraint.right, constraint.left),
    ):
        for other in _partners(a, b):
            kind, value = other
            return Constraint(b, "<=" if kind == "min" else ">=", value, constraint.origin)
    return constraint


def _partners(a: Dim, b: Dim) -> list[tuple[str, Dim]]:
    """(kind, other) where ``a`` is exactly kind(b, other)."""
    if isinstance(a, int) or len(a.terms) != 1:
        return []
    monomial, coefficient = a.terms[0]
    if coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return []
    atom = monomial[0][0]
    if atom.kind not in ("min", "max") or b not in atom.args:
        return []
    return [(atom.kind, atom.args[1] if atom.args[0] == b else atom.args[0])]


def implied(constraint: Constraint, facts: Facts) -> bool:
    """Whether the bounds of the symbols alone prove it."""
    left, right = facts.simplify(constraint.left), facts.simplify(constraint.right)
    difference = add(left, mul(right, -1))
    known = Constraint(left, constraint.relation, right).known()
    if known is not None:
        return known
    low, high = facts.bounds(difference)
    if _between(constraint.relation, low, high):
        return True
    up, down = facts.nonnegative, mul(difference, -1)
    if constraint.relation == ">=":
        return up(difference)
    if constraint.relation == ">":
        return up(add(difference, -1))
    if constraint.relation == "<=":
        return up(down)
    if constraint.relation == "<":
        return up(add(down, -1))
    if constraint.relation == "!=":
        return up(add(difference, -1)) or up(add(down, -1))
    return up(difference) and up(down)


def _between(relation: str, low: int, high: int | None) -> bool:
    """Whether ``x relation 0`` holds for all x from low to high."""
    if relation in (">=", ">"):
        return low >= 0 if relation == ">=" else low > 0
    if relation in ("<=", "<"):
        return high is not None and (high <= 0 if relation == "<=" else high < 0)
    if relation == "!=":
        return low > 0 or (high is not None and high < 0)
    return low == 0 == high


def tighten(symbols: dict[str, tuple[int, int | None]], constraint: Constraint) -> None:
    """Narrow a symbol's bounds by a constraint of the form ``symbol relation integer``."""
    left, relation, right = constraint.left, constraint.relation, constraint.right
    if isinstance(left, int):
        left, right = right, left
        relation = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}.get(relation, relation)
    name = str(left)
    if not isinstance(right, int) or name not in symbols:
        return
    low, high = symbols[name]
    if relation in ("<=", "<", "=="):
        end = right - (relation == "<")
        high = end if high is None else min(high, end)
    if relation in (">=", ">", "=="):
        low = max(low, right + (relation == ">"))
    if high is not None and low > high:
        raise ShapeConstraintError(
            f"no size of {name} is possible: {constraint} contradicts its bounds",
            where=constraint.origin,
            hint=f"give {name} other bounds, or change the line that needs this",
        )
    symbols[name] = (low, high)


def shape_env(program: torch.export.ExportedProgram) -> Any:
    """The environment that holds the program's symbols and guards; None if all is static."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return value.node.shape_env
        for size in getattr(value, "shape", ()):
            if isinstance(size, torch.SymInt):
                return size.node.shape_env
    return None
