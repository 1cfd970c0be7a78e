"""Integer expressions over named symbols, kept in one canonical polynomial form.

A dimension is an ``int`` or an :class:`Expr`; an expression that is constant is always an
``int``, so code that asks ``isinstance(d, int)`` learns whether a dimension is known.
An expression is a sum of integer multiples of monomials; a monomial is a product of atoms;
an atom is a symbol or one of the non-polynomial functions floordiv, mod, max and min.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Union

Dim = Union[int, "Expr"]
Monomial = tuple[tuple["Atom", int], ...]


class Atom:
    """A symbol, or an opaque function of expressions."""

    __slots__ = ("_hash", "args", "key", "kind", "name")

    def __init__(self, kind: str, name: str, args: tuple[Dim, ...] = ()) -> None:
        self.kind = kind
        self.name = name
        self.args = args
        self._hash = hash((kind, name, args))
        self.key = (0, name) if kind == "symbol" else (1, str(self))  # its place in a sum

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Atom) and self._hash == other._hash and (
            (self.kind, self.name, self.args) == (other.kind, other.name, other.args)
        )

    def __str__(self) -> str:
        if self.kind == "symbol":
            return self.name
        left, right = (_operand_text(a) for a in self.args)
        if self.kind == "floordiv":
            return f"{left} // {right}"
        if self.kind == "mod":
            return f"{left} % {right}"
        return f"{self.kind}({self.args[0]}, {self.args[1]})"

    __repr__ = __str__


def _operand_text(value: Dim) -> str:
    text = str(value)
    return text if text.replace("_", "").isalnum() else f"({text})"


class Expr:
    """A non-constant polynomial; build it with the operators or :func:`symbol`."""

    __slots__ = ("_hash", "_symbols", "_text", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._text: str | None = None
        self._symbols: frozenset[str] | None = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms
        )

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
        if self._text is None:
            self._text = _sum_text(self.terms)
        return self._text

    __repr__ = __str__


def _monomial_text(monomial: Monomial) -> str:
    factors = []
    for atom, power in monomial:
        text = str(atom)
        if atom.kind in ("floordiv", "mod"):
            text = f"({text})"
        factors.extend([text] * power)
    return " * ".join(factors)


def _sum_text(terms: tuple[tuple[Monomial, int], ...]) -> str:
    out = ""
    for monomial, coefficient in terms:
        size = abs(coefficient)
        body = _monomial_text(monomial)
        if not body:
            body = str(size)
        elif size != 1:
            body = f"{size} * {body}"
        if not out:
            out = body if coefficient > 0 else f"-{body}"
        else:
            out += f" + {body}" if coefficient > 0 else f" - {body}"
    if len(terms) == 1 and len(terms[0][0]) == 1 and terms[0][1] == 1:
        atom, power = terms[0][0][0]
        if power == 1:
            return str(atom)
    return out


def _order(item: tuple[Monomial, int]) -> tuple[int, int, list[tuple[int, str]]]:
    monomial = item[0]
    degree = sum(power for _, power in monomial)
    return (0 if degree else 1, -degree, [atom.key for atom, _ in monomial])


def _build(table: dict[Monomial, int]) -> Dim:
    terms = [(m, c) for m, c in table.items() if c != 0]
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    if len(terms) > 1:
        terms.sort(key=_order)
    return Expr(tuple(terms))


def _terms(value: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, Expr):
        return value.terms
    return (((), int(value)),) if value else ()


def symbol(name: str) -> Expr:
    """The expression that is just the symbol ``name``."""
    return Expr(((((Atom("symbol", name), 1),), 1),))


def add(a: Dim, b: Dim) -> Dim:
    """a + b"""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    table: dict[Monomial, int] = dict(_terms(a))
    for monomial, coefficient in _terms(b):
        table[monomial] = table.get(monomial, 0) + coefficient
    return _build(table)


def _times(a: Monomial, b: Monomial) -> Monomial:
    if not a:
        return b
    if not b:
        return a
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def mul(a: Dim, b: Dim) -> Dim:
    """a * b, expanded"""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    table: dict[Monomial, int] = {}
    for left, x in _terms(a):
        for right, y in _terms(b):
            monomial = _times(left, right)
            table[monomial] = table.get(monomial, 0) + x * y
    return _build(table)


def _divide_monomial(a: Monomial, b: Monomial) -> Monomial | None:
    powers = dict(a)
    for atom, power in b:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        if left:
            powers[atom] = left
        else:
            powers.pop(atom, None)
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def split_multiple(value: Dim, by: Dim) -> tuple[Dim, Dim]:
    """(q, r) with value == q * by + r and no term of r a multiple of ``by``."""
    if by == 1:
        return value, 0
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
            reduced = _divide_monomial(monomial, divisor)
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
            reduced = _divide_monomial(monomial, lead)
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
    if coefficient != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return None
    atom = monomial[0][0]
    if atom.kind != "floordiv":
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
    left, right = sorted((a, b), key=str)
    return _function("max", left, right)


def minimum(a: Dim, b: Dim) -> Dim:
    """min(a, b)"""
    difference = add(a, mul(b, -1))
    if isinstance(difference, int):
        return b if difference >= 0 else a
    left, right = sorted((a, b), key=str)
    return _function("min", left, right)


def product(values: Iterable[Dim]) -> Dim:
    """The product of the values; 1 for none."""
    total: Dim = 1
    for value in values:
        total = mul(total, value)
    return total


APPLY: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv,
    "mod": mod,
    "max": maximum,
    "min": minimum,
}


def symbols_of(value: Dim) -> set[str]:
    """Names of the symbols in ``value``."""
    return set() if isinstance(value, int) else set(_symbols(value))


def _symbols(value: Expr) -> frozenset[str]:
    if value._symbols is None:
        atoms = [atom for monomial, _ in value.terms for atom, _ in monomial]
        names = {a.name for a in atoms if a.kind == "symbol"}
        value._symbols = frozenset(names.union(*(symbols_of(x) for a in atoms for x in a.args)))
    return value._symbols


def substitute(value: Dim, table: Mapping[str, Dim]) -> Dim:
    """Replace symbols by expressions or integers."""
    if isinstance(value, int) or _symbols(value).isdisjoint(table):
        return value
    total: Dim = 0
    for monomial, coefficient in value.terms:
        term: Dim = coefficient
        for atom, power in monomial:
            term = product((term, *[_substitute_atom(atom, table)] * power))
        total = add(total, term)
    return total


def _substitute_atom(atom: Atom, table: Mapping[str, Dim]) -> Dim:
    if atom.kind == "symbol":
        found = table.get(atom.name)
        return found if found is not None else Expr((((((atom, 1),)), 1),))
    return APPLY[atom.kind](*(substitute(arg, table) for arg in atom.args))


def evaluate(value: Dim, table: Mapping[str, int]) -> int:
    """The integer that ``value`` is for these symbol values. Raises KeyError if one is missing."""
    result = substitute(value, table)
    if isinstance(result, int):
        return result
    raise KeyError(f"no value for {', '.join(sorted(symbols_of(result)))} in {value}")
