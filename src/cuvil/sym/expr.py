"""Integer expressions over named symbols, kept in one canonical polynomial form.

A dimension is an ``int`` or an :class:`Expr`; an expression that is constant is always an
``int``, so code that asks ``isinstance(d, int)`` learns whether a dimension is known.
An expression is a sum of integer multiples of monomials; a monomial is a product of atoms;
an atom is a symbol or one of the non-polynomial functions floordiv, mod, max and min.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Union

from cuvil.sym.monomial import divide, order, times
from cuvil.sym.text import OPERATORS, function_text, product_text, sum_text

Dim = Union[int, "Expr"]
Monomial = tuple[tuple["Atom", int], ...]


class Atom(str):
    """A symbol, or an opaque function of expressions; equal to what has the same text, since text
    is canonical. A string, because those are compared and hashed at the speed of C."""

    __slots__ = ("args", "factor", "key", "kind", "name")

    kind: str
    name: str
    args: tuple[Dim, ...]
    factor: str  # how it stands in a product
    key: tuple[int, str]  # its place in a sum

    def __new__(cls, kind: str, name: str, args: tuple[Dim, ...] = ()) -> Atom:
        text = name if kind == "symbol" else function_text(kind, *map(str, args))
        self = super().__new__(cls, text)
        self.kind = kind
        self.name = name
        self.args = args
        self.factor = f"({text})" if kind in OPERATORS else text
        self.key = (0 if kind == "symbol" else 1, text)
        return self


class Expr:
    """A non-constant polynomial; build it with the operators or :func:`symbol`."""

    __slots__ = ("_hash", "_symbols", "_text", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = 0  # these three are made when they are asked for
        self._text = ""
        self._symbols: frozenset[str] | None = None

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash(self.terms)
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self.terms == other.terms)

    def __add__(self, other: Dim) -> Dim:
        return add(self, other)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return mul(self, -1)

    def __sub__(self, other: Dim) -> Dim:
        return add(self, mul(other, -1))

    def __rsub__(self, other: Dim) -> Dim:
        return add(other, mul(self, -1))

    def __mul__(self, other: Dim) -> Dim:
        return mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    def __str__(self) -> str:
        if not self._text:
            self._text = self._written()
        return self._text

    def _written(self) -> str:
        monomial, coefficient = self.terms[0]
        if len(self.terms) == 1 and coefficient == 1 and len(monomial) == 1 == monomial[0][1]:
            return monomial[0][0].key[1]
        return sum_text((product_text((a.factor, n) for a, n in m), c) for m, c in self.terms)

    __repr__ = __str__


def _build(table: dict[Monomial, int], ordered: bool = False) -> Dim:
    terms = [item for item in table.items() if item[1]]
    if len(terms) > 1:
        return Expr(tuple(terms if ordered else sorted(terms, key=order)))
    if terms and terms[0][0]:
        return Expr(tuple(terms))
    return terms[0][1] if terms else 0


def _terms(value: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, Expr):
        return value.terms
    return (((), int(value)),) if value else ()


@lru_cache(maxsize=1024)
def symbol(name: str) -> Expr:
    """The expression that is just the symbol ``name``."""
    return Expr(((((Atom("symbol", name), 1),), 1),))


def add(a: Dim, b: Dim) -> Dim:
    """a + b"""
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        return _plus_constant(b, a)
    if isinstance(b, int):
        return _plus_constant(a, b)
    return total((a, b))


def _plus_constant(value: Expr, constant: int) -> Expr:
    """A sum has its constant last."""
    if constant == 0:
        return value
    terms = value.terms
    monomial, last = terms[-1]
    if monomial:
        return Expr((*terms, ((), constant)))
    return Expr((*terms[:-1], ((), constant + last)) if constant + last else terms[:-1])


def total(values: Iterable[Dim]) -> Dim:
    """The sum of the values; 0 for none."""
    table: dict[Monomial, int] = {}
    first = 0  # how many terms the first value has that has any: those are in order
    for value in values:
        for monomial, coefficient in _terms(value):
            table[monomial] = table.get(monomial, 0) + coefficient
        first = first or len(table)
    return _build(table, len(table) == first)


def _scaled(value: Expr, factor: int) -> Dim:
    if factor == 1:
        return value
    return Expr(tuple([(m, c * factor) for m, c in value.terms])) if factor else 0


def mul(a: Dim, b: Dim) -> Dim:
    """a * b, expanded"""
    if isinstance(a, int):
        return a * b if isinstance(b, int) else _scaled(b, a)
    if isinstance(b, int):
        return _scaled(a, b)
    if len(a.terms) == 1 and len(b.terms) == 1:
        (left, x), (right, y) = a.terms[0], b.terms[0]
        return Expr(((times(left, right), x * y),))
    table: dict[Monomial, int] = {}
    for left, x in a.terms:
        for right, y in b.terms:
            monomial = times(left, right)
            table[monomial] = table.get(monomial, 0) + x * y
    return _build(table)


def split_multiple(value: Dim, by: Dim) -> tuple[Dim, Dim]:
    """(q, r) with value == q * by + r and no term of r a multiple of ``by``."""
    if isinstance(by, int):
        quotient: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in _terms(value):
            if monomial and coefficient % by:
                rest[monomial] = coefficient
            else:
                q, r = divmod(coefficient, by)
                quotient[monomial] = q
                if r:
                    rest[monomial] = r
        return _build(quotient), _build(rest)
    if isinstance(by, Expr) and len(by.terms) == 1:
        divisor, scale = by.terms[0]
        quotient, rest = {}, {}
        for monomial, coefficient in _terms(value):
            reduced = divide(monomial, divisor)
            if reduced is None or coefficient % scale:
                rest[monomial] = coefficient
            else:
                quotient[reduced] = coefficient // scale
        return _build(quotient), _build(rest)
    return _divide_polynomial(value, by)


def _divide_polynomial(value: Dim, by: Dim) -> tuple[Dim, Dim]:
    """Exact long division by a polynomial of several terms; (0, value) where it leaves a rest."""
    lead, scale = _terms(by)[0]
    quotient: Dim = 0
    rest = value
    for _ in range(16):
        if rest == 0:
            return quotient, 0
        for monomial, coefficient in _terms(rest):
            reduced = divide(monomial, lead)
            if reduced is not None and coefficient % scale == 0:
                step = _build({reduced: coefficient // scale})
                break
        else:
            return 0, value
        quotient = add(quotient, step)
        rest = add(rest, mul(mul(step, by), -1))
    return 0, value


def _function(kind: str, a: Dim, b: Dim) -> Expr:
    return Expr(((((Atom(kind, kind, (a, b)), 1),), 1),))


def floordiv(a: Dim, b: Dim) -> Dim:
    """Floor division; ``b`` is taken to be positive. Raises ZeroDivisionError for b == 0."""
    if b == 0:
        raise ZeroDivisionError(f"{a} // 0")
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1:
        return a
    quotient, rest = split_multiple(a, b)
    if rest == 0:
        return quotient
    if isinstance(b, int) and isinstance(rest, int) and 0 <= rest < b:
        return quotient
    inner = _lone_floordiv(rest)
    if inner is not None:  # floor(floor(a / c) / b) == floor(a / (c * b)) for positive c and b
        return add(quotient, floordiv(inner[0], mul(inner[1], b)))
    return add(quotient, _function("floordiv", rest, b))


def _lone_floordiv(value: Dim) -> tuple[Dim, Dim] | None:
    """(a, c) where ``value`` is exactly a // c, plus an integer n as (a + n * c) // c."""
    if not isinstance(value, Expr) or len(value.terms) > 2:
        return None
    monomial, coefficient = value.terms[0]
    (atom, power), *others = monomial
    if coefficient != 1 or others or power != 1 or atom.kind != "floordiv":
        return None
    a, c = atom.args
    if len(value.terms) == 2:
        other, constant = value.terms[1]
        if other:
            return None
        a = add(a, mul(c, constant))
    return a, c


def mod(a: Dim, b: Dim) -> Dim:
    """a - b * floordiv(a, b)"""
    if b == 0:
        raise ZeroDivisionError(f"{a} % 0")
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if b == 1:
        return 0
    _, rest = split_multiple(a, b)
    if isinstance(rest, int) and (rest == 0 or (isinstance(b, int) and 0 <= rest < b)):
        return rest
    return _function("mod", rest, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """Division rounded up."""
    return mul(floordiv(mul(a, -1), b), -1) if isinstance(a, int) else floordiv(a + b - 1, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """max(a, b)"""
    difference = add(a, mul(b, -1))
    if isinstance(difference, int):
        return a if difference >= 0 else b
    return _function("max", *sorted((a, b), key=str))


def minimum(a: Dim, b: Dim) -> Dim:
    """min(a, b)"""
    difference = add(a, mul(b, -1))
    if isinstance(difference, int):
        return b if difference >= 0 else a
    return _function("min", *sorted((a, b), key=str))


def product(values: Iterable[Dim]) -> Dim:
    """The product of the values; 1 for none."""
    found: Dim = 1
    for value in values:
        found = mul(found, value)
    return found


APPLY: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum,
}  # fmt: skip
_AT: Mapping[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min,
}  # fmt: skip


def symbols_of(value: Dim) -> frozenset[str]:
    """Names of the symbols in ``value``."""
    if isinstance(value, int):
        return frozenset()
    if value._symbols is None:
        names: set[str] = set()
        for monomial, _ in value.terms:
            for atom, _ in monomial:
                if atom.kind == "symbol":
                    names.add(atom.name)
                else:
                    names.update(*map(symbols_of, atom.args))
        value._symbols = frozenset(names)
    return value._symbols


def substitute(value: Dim, table: Mapping[str, Dim]) -> Dim:
    """Replace symbols by expressions or integers."""
    if isinstance(value, int) or symbols_of(value).isdisjoint(table):
        return value
    return total(_substitute_term(*term, table) for term in value.terms)


def _substitute_term(monomial: Monomial, coefficient: int, table: Mapping[str, Dim]) -> Dim:
    kept, changed = [], []
    for atom, power in monomial:
        found = _substitute_atom(atom, table)
        if found is None:
            kept.append((atom, power))
        else:
            changed += [found] * power
    first: Dim = Expr(((tuple(kept), coefficient),)) if kept else coefficient
    return product((first, *changed))


def _substitute_atom(atom: Atom, table: Mapping[str, Dim]) -> Dim | None:
    """None where it stays as it is."""
    if atom.kind == "symbol":
        return table.get(atom.name)
    if all(symbols_of(arg).isdisjoint(table) for arg in atom.args):
        return None
    return APPLY[atom.kind](*(substitute(arg, table) for arg in atom.args))


def evaluate(value: Dim, table: Mapping[str, int]) -> int:
    """The integer that ``value`` is for these symbol values. Raises KeyError if one is missing."""
    if isinstance(value, int):
        return value
    if symbols_of(value) <= table.keys():
        return sum(_term_at(monomial, coefficient, table) for monomial, coefficient in value.terms)
    result = substitute(value, table)
    if isinstance(result, int):
        return result
    raise KeyError(f"no value for {', '.join(sorted(symbols_of(result)))} in {value}")


def _term_at(monomial: Monomial, coefficient: int, table: Mapping[str, int]) -> int:
    for atom, power in monomial:
        if atom.kind == "symbol":
            known = table[atom.name]
        else:
            known = _AT[atom.kind](*(evaluate(arg, table) for arg in atom.args))
        coefficient *= known**power
    return coefficient
