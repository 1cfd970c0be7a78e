"""Which expressions are equal, given bounds and constraints: the fast path for types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, Expr, add, mul, substitute, symbols_of
from cuvil.sym.facts import Facts

SymbolBounds = Mapping[str, tuple[int, "int | None"]]


class Equality:
    """Proves ``a == b`` by solving the ``==`` constraints for one symbol each."""

    def __init__(self, symbols: SymbolBounds, constraints: Iterable[Constraint] = ()) -> None:
        self.facts = Facts(symbols)
        self.solved: dict[str, Dim] = {
            name: low for name, (low, high) in symbols.items() if low == high
        }
        self.zeros: list[Dim] = []
        for constraint in constraints:
            if constraint.relation == "==":
                self._learn(add(constraint.left, mul(constraint.right, -1)))

    def _learn(self, difference: Dim) -> None:
        difference = substitute(difference, self.solved)
        if isinstance(difference, int):
            return
        found = solve_for_symbol(difference)
        if found is None:
            self.zeros.append(difference)
            return
        name, value = found
        step = {name: value}
        self.solved = {k: substitute(v, step) for k, v in self.solved.items()}
        self.solved[name] = value

    def reduce(self, value: Dim) -> Dim:
        """``value`` in terms of the symbols that no equation decides."""
        if isinstance(value, int):
            return value
        return self.facts.simplify(substitute(value, self.solved))

    def proved(self, a: Dim, b: Dim) -> bool:
        """Whether a == b is proved. False means only that it isn't."""
        if a == b:
            return True
        difference = self.reduce(add(a, mul(b, -1)))
        if difference == 0:
            return True
        return any(
            difference in (zero, mul(zero, -1)) for zero in map(self.reduce, self.zeros)
        )


def solve_for_symbol(zero: Dim) -> tuple[str, Dim] | None:
    """(symbol, value) from ``zero == 0`` where a symbol stands alone with coefficient 1 or -1."""
    if isinstance(zero, int):
        return None
    for monomial, coefficient in reversed(zero.terms):
        if len(monomial) != 1 or abs(coefficient) != 1:
            continue
        atom, power = monomial[0]
        if atom.kind != "symbol" or power != 1:
            continue
        alone = Expr(((monomial, coefficient),))
        rest = add(zero, mul(alone, -1))
        if atom.name not in symbols_of(rest):
            return atom.name, mul(rest, -coefficient)
    return None


def as_choice(value: Dim) -> tuple[str, Dim, Dim] | None:
    """("min" or "max", a, b) where the value is that and no more."""
    terms = value.terms if isinstance(value, Expr) else ()
    if len(terms) != 1 or terms[0][1] != 1 or len(terms[0][0]) != 1:
        return None
    atom, power = terms[0][0][0]
    if power != 1 or atom.kind not in ("min", "max"):
        return None
    return atom.kind, atom.args[0], atom.args[1]
