"""Satisfiability without a solver: bounds propagation, sums of pairs, trial of small values.

Sound in both directions: True comes with values that satisfy everything, False with a proof that
no sizes of 64 bits do.
Bounds propagation over linear constraints follows Apt, "Principles of Constraint Programming",
2003, section 6.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, Expr, Monomial, add, mul
from cuvil.sym.facts import Facts

SymbolBounds = Mapping[str, tuple[int, "int | None"]]
Domains = dict[str, tuple[int, "int | None"]]

ROUNDS = 40
PAIRS = 64
LARGEST = (1 << 63) - 1  # what a size is held in
TRIALS = 4096
_TRY = (1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 256, 512, 1024)


def decide(constraints: Sequence[Constraint], symbols: SymbolBounds) -> bool | None:
    """Whether some values within the bounds satisfy all constraints; None if this can't tell.

    A symbol without bounds is a dimension: at least 0.
    """
    domains: Domains = {name: (0, None) for c in constraints for name in c.symbols()}
    domains.update(symbols)
    if any(c.known() is False for c in constraints):
        return False
    zeros = [form for c in constraints for form in _at_most_zero(c)]
    if not _propagate(zeros, domains) or _pair_conflicts(zeros):
        return False
    found, complete = _try_values(constraints, domains)
    return True if found else False if complete else None


def narrow(constraints: Sequence[Constraint], symbols: SymbolBounds) -> Domains | None:
    """The bounds that follow for each symbol; None if the constraints contradict each other."""
    domains: Domains = {name: (0, None) for c in constraints for name in c.symbols()}
    domains.update(symbols)
    zeros = [form for c in constraints for form in _at_most_zero(c)]
    return domains if _propagate(zeros, domains) else None


def _at_most_zero(constraint: Constraint) -> Iterator[Dim]:
    """Expressions that are <= 0 where the constraint holds; none for !=."""
    difference = add(constraint.left, mul(constraint.right, -1))
    relation = constraint.relation
    if relation in ("<=", "=="):
        yield difference
    if relation in (">=", "=="):
        yield mul(difference, -1)
    if relation == "<":
        yield add(difference, 1)
    if relation == ">":
        yield add(mul(difference, -1), 1)


def _propagate(zeros: Sequence[Dim], domains: Domains) -> bool:
    """Narrow the domains until nothing changes, at most ROUNDS times; False for a conflict."""
    for low, high in domains.values():
        if high is not None and high < low:
            return False
    for _ in range(ROUNDS):
        before = dict(domains)
        for zero in zeros:
            if not _narrow_by(zero, domains):
                return False
        if domains == before:
            return True
    return True


def _narrow_by(zero: Dim, domains: Domains) -> bool:
    """Use ``zero <= 0`` once. Monomials other than a symbol count by their interval."""
    if isinstance(zero, int):
        return zero <= 0
    facts = Facts(domains)
    lows = [_term_low(monomial, c, domains, facts) for monomial, c in zero.terms]
    open_ends = lows.count(None)
    total = sum(low for low in lows if low is not None)
    if open_ends == 0 and total > 0:
        return False
    if open_ends > 1:
        return True
    for (monomial, coefficient), low in zip(zero.terms, lows, strict=True):
        name = _symbol_of(monomial)
        if name is None or (open_ends == 1 and low is not None):
            continue
        room = (low or 0) - total
        have_low, have_high = domains[name]
        if coefficient > 0:
            high = room // coefficient
            have_high = high if have_high is None else min(have_high, high)
        else:
            have_low = max(have_low, -((-room) // coefficient))
        # Without a ceiling products of symbols would square what is known in every round.
        if have_low > (LARGEST if have_high is None else have_high):
            return False
        domains[name] = (have_low, have_high)
    return True


def _term_low(
    monomial: Monomial, coefficient: int, domains: Domains, facts: Facts
) -> int | None:
    """The least value of one term; None if it has none."""
    if not monomial:
        return coefficient
    name = _symbol_of(monomial)
    if name is not None:
        low, high = domains[name]
    else:
        low, high = facts.bounds(Expr(((monomial, 1),)))
        if low <= -(1 << 61):
            return None
    if coefficient > 0:
        return coefficient * low
    return None if high is None else coefficient * high


def _symbol_of(monomial: Monomial) -> str | None:
    if len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0].kind == "symbol":
        return monomial[0][0].name
    return None


def _pair_conflicts(zeros: Sequence[Dim]) -> bool:
    """Whether two expressions that must be <= 0 add up to a positive number."""
    few = [z for z in zeros if isinstance(z, Expr)][:PAIRS]
    for i, a in enumerate(few):
        for b in few[i + 1 :]:
            both = add(a, b)
            if isinstance(both, int) and both > 0:
                return True
    return False


def _try_values(constraints: Sequence[Constraint], domains: Domains) -> tuple[bool, bool]:
    """(some tried values satisfy all, every possible value was tried)."""
    names = sorted({name for c in constraints for name in c.symbols()})
    complete = True
    choices: list[Sequence[int]] = []
    count = 1
    for name in names:
        low, high = domains[name]
        whole = high is not None and (high - low + 1) * count <= TRIALS
        values = range(low, high + 1) if whole and high is not None else _sample(low, high)
        complete = complete and whole
        choices.append(values)
        count *= len(values)
    for tried, combination in enumerate(product(*choices)):
        if tried >= TRIALS:
            return False, False
        if _all_hold(constraints, dict(zip(names, combination, strict=True))):
            return True, complete
    return False, complete


def _sample(low: int, high: int | None) -> list[int]:
    values = {low, low + 1, *(v for v in _TRY if v > low)}
    if high is not None:
        values = {v for v in values if v <= high} | {high}
    return sorted(values)


def _all_hold(constraints: Sequence[Constraint], table: Mapping[str, int]) -> bool:
    """A division by zero counts as broken: divisors are positive."""
    try:
        return all(c.holds(table) for c in constraints)
    except ZeroDivisionError:
        return False
