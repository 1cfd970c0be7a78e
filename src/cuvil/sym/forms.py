"""Forms that expressions may have: linear in a symbol, a multiple of a quotient, and so on."""

from __future__ import annotations

from cuvil.sym.expr import Atom, Dim, Expr, Monomial, add, floordiv, mul, symbols_of, total


def multiple_of_quotient(monomial: Monomial, coefficient: int) -> Dim | None:
    """The least that k * c * (a // c) can be: k * (a - c + 1) for k > 0, k * a for k < 0."""
    if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].kind != "floordiv":
        return None
    a, c = monomial[0][0].args
    if not isinstance(c, int) or c <= 0 or coefficient % c:
        return None
    times = coefficient // c
    return mul(add(a, 1 - c) if times > 0 else a, times)


def unrounded(value: Dim) -> Dim:
    """What is >= 0 just where ``value`` is, a quotient that stands alone resolved: for k > 0,
    k * (a // c) + n >= 0 where a // c >= q = ceil(-n / k), which is where a >= q * c; and for
    k < 0 where a // c <= q = floor(n / -k), which is where a < (q + 1) * c."""
    terms = value.terms if isinstance(value, Expr) else ()
    if not 1 <= len(terms) <= 2 or (len(terms) == 2 and terms[1][0]):
        return value
    (monomial, times), number = terms[0], terms[1][1] if len(terms) == 2 else 0
    if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].kind != "floordiv":
        return value
    a, c = monomial[0][0].args
    if not isinstance(c, int) or c <= 0:
        return value
    if times > 0:
        return unrounded(add(a, -c * -(number // times)))
    return unrounded(add(mul(a, -1), c * (number // -times + 1) - 1))


def has_function(value: Expr) -> bool:
    """Whether it is more than a polynomial of symbols."""
    return any(atom.kind != "symbol" for monomial, _ in value.terms for atom, _ in monomial)


def is_atom(value: Dim, atom: Atom) -> bool:
    """Whether the value is the atom and no more."""
    return isinstance(value, Expr) and value.terms == ((((atom, 1),), 1),)


def linear_in(value: Dim, name: str) -> tuple[Dim | None, Dim]:
    """(slope, rest) with value == slope * name + rest; slope None where it is not linear."""
    if isinstance(value, int) or name not in symbols_of(value):
        return 0, value
    slope: list[Dim] = []
    rest: list[Dim] = []
    for monomial, coefficient in value.terms:
        others: list[tuple[Atom, int]] = []
        power_here = 0
        for atom, power in monomial:
            if atom.kind == "symbol" and atom.name == name:
                power_here = power
            elif atom.kind != "symbol" and name in symbols_in(atom.args):
                return None, value
            else:
                others.append((atom, power))
        term: Dim = Expr(((tuple(others), coefficient),)) if others else coefficient
        if power_here == 0:
            rest.append(term)
        elif power_here == 1:
            slope.append(term)
        else:
            return None, value
    return total(slope), total(rest)


def symbols_in(args: tuple[Dim, ...]) -> frozenset[str]:
    """Names of the symbols in any of the expressions."""
    return frozenset().union(*map(symbols_of, args))


def rejoin(value: Dim) -> Dim:
    """b * floordiv(a, b) + mod(a, b) -> a, for each such pair of terms."""
    if isinstance(value, int):
        return value
    for monomial, coefficient in value.terms:
        for atom, power in monomial:
            if atom.kind != "mod" or power != 1:
                continue
            a, b = atom.args
            others = tuple(item for item in monomial if item[0] is not atom)
            scale: Dim = Expr(((others, coefficient),)) if others else coefficient
            pair = mul(mul(scale, b), floordiv(a, b))
            without = add(value, mul(pair, -1))
            if len(_term_list(without)) < len(value.terms):
                as_mod: Dim = Expr(((monomial, coefficient),))
                return rejoin(add(add(without, mul(as_mod, -1)), mul(scale, a)))
    return value


def _term_list(value: Dim) -> tuple[tuple[Monomial, int], ...]:
    return value.terms if isinstance(value, Expr) else ()
