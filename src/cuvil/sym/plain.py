"""Constraints in plain words: a bound, a divisibility, a few sizes left out.

A value is *quasi-linear* in a symbol n if from some n on it grows by the same amount every P: sums
of n, of quotients and rests by numbers, and of maxima and minima of such values are. Whether a
relation between two of them holds is then periodic from some n on, so that looking at the sizes
up to there and one period more decides it for all: no guess, and no solver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import gcd, lcm, prod
from operator import sub

from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import (
    APPLY,
    Atom,
    Dim,
    Expr,
    add,
    evaluate,
    floordiv,
    mod,
    mul,
    product,
    symbol,
    total,
)

_MOST_SIZES = 2048  # what is looked at
_MOST_LEFT_OUT = 3


@dataclass(frozen=True)
class _Growth:
    """f(n + period) == f(n) + rise for all n >= start."""

    start: int
    period: int
    rise: int

    def repeated(self, times: int) -> _Growth:
        return _Growth(self.start, self.period * times, self.rise * times)


class _Unknown(Exception):
    """The value is not quasi-linear, or only from too large a size on."""


Bounds = Mapping[str, "tuple[int, int | None]"]


def plain(constraint: Constraint, bounds: Bounds | None = None) -> tuple[Constraint, ...] | None:
    """Simple constraints that together hold at just the sizes within the bounds at which this one
    does (none: at all of them); None where there are no such. A symbol without bounds is 0 or
    more."""
    names = constraint.symbols()
    if _is_plain(constraint):
        return None
    if len(names) == 1:
        (name,) = names
        low, high = (bounds or {}).get(name, (0, None))
        return _plain(constraint, constraint.origin, name, low, high)
    found = _of_several(constraint)
    return _of_products(constraint, bounds or {}) if found is None else found


def _of_products(constraint: Constraint, bounds: Bounds) -> tuple[Constraint, ...] | None:
    """``h * w == 4 * (h // 2) * (w // 2)``: each factor is a multiple, where none of the others
    is 0."""
    if constraint.relation != "==":
        return None
    for a, b in permutations((constraint.left, constraint.right)):
        whole, parts = _factors(a), _factors(b)
        if whole is None or parts is None or whole[1].keys() != parts[1].keys():
            continue
        divisors = parts[1]
        if set(whole[1].values()) != {1} or parts[0] != whole[0] * prod(divisors.values()):
            continue
        open_ends = [n for n in divisors if bounds.get(n, (0, None))[0] < 1]
        return tuple(
            Constraint(
                mul(mod(symbol(name), by), product(symbol(n) for n in open_ends if n != name)),
                "==", 0, constraint.origin,
            )
            for name, by in divisors.items() if by > 1
        )  # fmt: skip
    return None


def _factors(value: Dim) -> tuple[int, dict[str, int]] | None:
    """(c, {name: d, ...}) of c times the product of all name // d; None for other values."""
    if not isinstance(value, Expr) or len(value.terms) != 1:
        return None
    monomial, times = value.terms[0]
    found: dict[str, int] = {}
    for atom, power in monomial:
        of, by = (symbol(atom.name), 1) if atom.kind == "symbol" else atom.args
        name = str(of)
        plainly = atom.kind in ("symbol", "floordiv") and name.isidentifier() and power == 1
        if not plainly or name in found or not isinstance(by, int) or by < 1:
            return None
        found[name] = by
    return times, found


def _of_several(constraint: Constraint) -> tuple[Constraint, ...] | None:
    """A constraint that always holds once rests are written with quotients, or one that says that
    a value is a multiple of a number."""
    difference = _without_rests(add(constraint.left, mul(constraint.right, -1)))
    if isinstance(difference, int):
        return () if Constraint(difference, constraint.relation, 0).known() else None
    if constraint.relation != "==":
        return None
    for monomial, times in difference.terms:
        if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].kind != "floordiv":
            continue
        a, by = monomial[0][0].args
        if isinstance(by, int) and times % by == 0:
            rest = mul(add(a, mul(floordiv(a, by), -by)), -(times // by))
            if rest == difference:
                return (Constraint(mod(a, by), "==", 0, constraint.origin),)
    return None


def _without_rests(value: Dim) -> Dim:
    """``a % b`` as a - b * (a // b), for each number b."""
    if not isinstance(value, Expr):
        return value
    terms: list[Dim] = []
    for monomial, times in value.terms:
        term: Dim = times
        for atom, power in monomial:
            factor: Dim = symbol(atom.name)
            if atom.kind != "symbol":
                a, b = map(_without_rests, atom.args)
                rest = atom.kind == "mod" and isinstance(b, int)
                factor = add(a, mul(floordiv(a, b), mul(b, -1))) if rest else APPLY[atom.kind](a, b)
            term = mul(term, product([factor] * power))
        terms.append(term)
    return total(terms)


def _is_plain(constraint: Constraint) -> bool:
    """``n >= 3`` and the like need no other words."""
    left = constraint.left
    if not isinstance(constraint.right, int) or isinstance(left, int) or len(left.terms) != 1:
        return False
    monomial, times = left.terms[0]
    return times == 1 and len(monomial) == 1 and monomial[0][0].kind == "symbol"


# The origin is an argument of its own, since equal constraints may have several.
@lru_cache(maxsize=4096)
def _plain(
    constraint: Constraint, origin: str, name: str, low: int, high: int | None
) -> tuple[Constraint, ...] | None:
    try:
        end, period = _settled(constraint, name, low)
    except _Unknown:
        return None
    last = end + 2 * period if high is None else min(end + 2 * period, high)
    table = {n: constraint.holds({name: n}) for n in range(low, last + 1)}
    # Beyond this a form is periodic too, as one that only the last period bears out need not be.
    settled = last if high == last else last - period
    for form in _forms(symbol(name), table, settled, period):
        if all(all(c.holds({name: n}) for c in form) == held for n, held in table.items()):
            return tuple(Constraint(c.left, c.relation, c.right, origin) for c in form)
    return None


def _settled(constraint: Constraint, name: str, low: int) -> tuple[int, int]:
    """(end, period): from ``end`` on the truth of the constraint is periodic."""
    difference = add(constraint.left, mul(constraint.right, -1))
    growth = _growth(difference, name, low)
    end = growth.start
    if growth.rise:
        most = max(abs(v) for v in _values(difference, name, growth))
        end += growth.period * (most // abs(growth.rise) + 2)
    if end + growth.period - low > _MOST_SIZES:
        raise _Unknown
    return end, growth.period


def _values(value: Dim, name: str, growth: _Growth) -> list[int]:
    """The values over the first period."""
    if growth.period > _MOST_SIZES:
        raise _Unknown
    return [evaluate(value, {name: growth.start + i}) for i in range(growth.period)]


def _growth(value: Dim, name: str, low: int) -> _Growth:
    if not isinstance(value, Expr):
        return _Growth(low, 1, 0)
    found = _Growth(low, 1, 0)
    for monomial, times in value.terms:
        if not monomial:
            continue
        if len(monomial) != 1 or monomial[0][1] != 1:
            raise _Unknown
        part = _of_atom(monomial[0][0], name, low)
        found = _joined(found, _Growth(part.start, part.period, part.rise * times))
    return found


def _joined(a: _Growth, b: _Growth) -> _Growth:
    """That of a sum."""
    period = lcm(a.period, b.period)
    rises = (g.repeated(period // g.period).rise for g in (a, b))
    return _Growth(max(a.start, b.start), period, sum(rises))


def _of_atom(atom: Atom, name: str, low: int) -> _Growth:
    if atom.kind == "symbol":
        return _Growth(low, 1, 1)
    a, b = atom.args
    if atom.kind in ("max", "min"):
        return _of_choice(atom.kind, a, b, name, low)
    if not isinstance(b, int):
        return _of_ratio(atom.kind, a, b, name, low)
    if b <= 0:
        raise _Unknown
    inner = _growth(a, name, low)
    whole = inner.repeated(b // gcd(inner.rise, b))
    return _Growth(whole.start, whole.period, whole.rise // b if atom.kind == "floordiv" else 0)


def _of_ratio(kind: str, a: Dim, b: Dim, name: str, low: int) -> _Growth:
    """The quotient of two values that grow settles: rest = a - q * b is within one b of 0, or
    grows more slowly than b."""
    top, bottom = _growth(a, name, low), _growth(b, name, low)
    period = lcm(top.period, bottom.period)
    rise, by = (g.repeated(period // g.period).rise for g in (top, bottom))
    if by <= 0:
        raise _Unknown
    whole = rise // by
    rest = add(a, mul(b, -whole))
    both = _Growth(max(top.start, bottom.start), period, rise - whole * by)
    rests, divisors = _values(rest, name, both), _values(b, name, both)
    least = min(by, both.rise or by, by - both.rise)
    most = max(map(abs, (*rests, *divisors, *map(sub, divisors, rests))))
    start = both.start + period * (most * (2 if both.rise else 1) // least + 2)
    if kind == "floordiv":
        return _Growth(start, period, 0)
    if both.rise == 0 and min(rests) < 0:
        raise _Unknown
    return _Growth(start, period, both.rise)


def _of_choice(kind: str, a: Dim, b: Dim, name: str, low: int) -> _Growth:
    """One side wins from some size on, or the difference of the two is periodic."""
    difference = add(a, mul(b, -1))
    gap = _growth(difference, name, low)
    values = _values(difference, name, gap)
    winner, start = a, gap.start
    if gap.rise:
        winner = a if (gap.rise > 0) == (kind == "max") else b
        start += gap.period * (max(map(abs, values)) // abs(gap.rise) + 1)
    chosen = _growth(winner, name, low)
    return _joined(_Growth(start, gap.period, 0), chosen)


def _forms(
    n: Expr, table: Mapping[int, bool], settled: int, period: int
) -> Iterator[list[Constraint]]:
    """What the constraint may come to, the simplest first; ``table`` says where it holds."""
    yield []
    held = [size for size, holds in table.items() if holds]
    if not held:
        return
    first, last = held[0], held[-1]
    ends = []
    if first > min(table):
        ends.append(Constraint(n, ">=", first))
    if last <= settled and last < max(table):
        ends.append(Constraint(n, "<=", last))
    yield [Constraint(n, "==", first)] if first == last <= settled else ends
    failed = [size for size, holds in table.items() if not holds]
    for by in (d for d in range(2, period + 1) if period % d == 0):
        rest = Constraint(mod(n, by), "==", last % by)
        yield [rest]
        yield [*ends, rest]
        yield [Constraint(mod(n, by), "!=", size % by) for size in failed[-1:]]
    left_out = [size for size in failed if first < size < last]
    if len(left_out) <= _MOST_LEFT_OUT and all(size <= settled for size in left_out):
        yield [*ends, *(Constraint(n, "!=", size) for size in left_out)]
