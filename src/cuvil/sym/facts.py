"""What is known of symbols, and the proofs that follow by linear reasoning.

``Facts`` holds an inclusive lower and upper bound for each symbol; the bounds of loop variables
may be expressions over other symbols. A proof substitutes each bounded variable by the end that
makes the value smallest and then asks whether all coefficients are non-negative; what that can't
decide is left unproved (never guessed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuvil.sym.expr import (
    APPLY,
    Atom,
    Dim,
    Expr,
    Monomial,
    add,
    floordiv,
    mod,
    mul,
    split_multiple,
    substitute,
    symbol,
    symbols_of,
)

Bounds = tuple[Dim, "Dim | None"]


class Facts:
    """Bounds by symbol name; ``loops`` are the variables with symbolic bounds, inner last."""

    def __init__(
        self,
        symbols: Mapping[str, tuple[int, int | None]] | None = None,
        loops: Mapping[str, Bounds] | None = None,
        assumed: Sequence[Dim] = (),
    ) -> None:
        self.symbols = dict(symbols or {})
        self.loops = dict(loops or {})
        self._proofs: dict[Dim, bool] = {}
        self._simple: dict[Dim, Dim] = {}
        self.assumed = tuple(assumed)  # expressions that are taken to be >= 0

    def with_loops(self, loops: Mapping[str, Bounds]) -> Facts:
        """The same facts and more loop variables."""
        return Facts(self.symbols, {**self.loops, **loops}, self.assumed)

    def nonnegative(self, value: Dim) -> bool:
        """Whether value >= 0 is proved."""
        if isinstance(value, int):
            return value >= 0
        return self._proved(value) or any(
            self._proved(add(value, mul(known, -1))) for known in self.assumed
        )

    def _proved(self, value: Dim) -> bool:
        known = self._proofs.get(value)
        if known is None:
            self._proofs[value] = False  # while it is being decided
            lowest = self._lowest(value)
            known = lowest is not None and self._coefficients_nonnegative(lowest)
            known = known or self._proved_by_sides(value)
            self._proofs[value] = known
        return known

    def _proved_by_sides(self, value: Dim) -> bool:
        """Replace a max or min by its sides. ``+max(a, b)`` and ``-min(a, b)`` are at least what
        either side gives, so one side proves it; for the others both must."""
        if isinstance(value, int):
            return False
        for monomial, coefficient in value.terms:
            if len(monomial) != 1 or monomial[0][1] != 1:
                continue
            atom = monomial[0][0]
            if atom.kind not in ("max", "min"):
                continue
            rest = add(value, Expr(((monomial, -coefficient),)))
            sides = (self._proved(add(rest, mul(side, coefficient))) for side in atom.args)
            one_is_enough = (atom.kind == "max") == (coefficient > 0)
            return any(sides) if one_is_enough else all(sides)
        return False

    def less(self, a: Dim, b: Dim) -> bool:
        """Whether a < b is proved."""
        return self.nonnegative(add(b, add(mul(a, -1), -1)))

    def positive(self, value: Dim) -> bool:
        """Whether value >= 1 is proved."""
        return self.nonnegative(add(value, -1))

    def _lowest(self, value: Dim) -> Dim | None:
        """``value`` with loop variables and opaque functions replaced by the end that is least."""
        for name in reversed(self.loops):
            if isinstance(value, int):
                return value
            slope, rest = _linear_in(value, name)
            if slope is None:
                return None
            if slope == 0:
                continue
            low, high = self.loops[name]
            if self._coefficients_nonnegative(slope):
                value = add(rest, mul(slope, low))
            elif high is not None and self._coefficients_nonnegative(mul(slope, -1)):
                value = add(rest, mul(slope, high))
            else:
                return None
        return self._bound_functions(value)

    def _bound_functions(self, value: Dim) -> Dim | None:
        """Replace floordiv and mod atoms by a bound below (or above, under a minus sign)."""
        if isinstance(value, int):
            return value
        total: Dim = 0
        for monomial, coefficient in value.terms:
            rounded = _multiple_of_quotient(monomial, coefficient)
            if rounded is not None:
                total = add(total, rounded)
                continue
            term: Dim = coefficient
            for atom, power in monomial:
                factor: Dim | None
                if atom.kind == "symbol":
                    factor = Expr(((((atom, 1),), 1),))
                else:
                    factor = self._function_end(atom.kind, atom.args, coefficient < 0)
                if factor is None:
                    return None
                for _ in range(power):
                    term = mul(term, factor)
            total = add(total, term)
        return total

    # Assumptions are not used inside: what they subtract may hold the very function again.
    def _function_end(self, kind: str, args: tuple[Dim, ...], upper: bool) -> Dim | None:
        a, b = args
        if kind == "mod":
            if upper:
                return add(b, -1)
            return 0
        if kind == "floordiv":
            if not upper:
                low = self._interval(a)[0]
                if low is not None and isinstance(b, int):
                    return low // b
                return 0 if self._proved(a) else None
            return a if self._proved(a) and self._proved(add(b, -1)) else None
        if kind == "max":
            if not upper:
                return a if isinstance(b, int) else b
            return None
        if kind == "min" and upper:
            return a if isinstance(b, int) else b
        if kind == "min" and self._proved(a) and self._proved(b):
            return 0
        return None

    def _coefficients_nonnegative(self, value: Dim) -> bool:
        """Shift every symbol to its lower end; then non-negative coefficients prove it."""
        if isinstance(value, int):
            return value >= 0
        if not all(self._never_negative(monomial) for monomial, _ in value.terms):
            return False
        shifted = self._shift(value)
        if isinstance(shifted, int):
            return shifted >= 0
        return all(coefficient >= 0 for _, coefficient in shifted.terms)

    def _never_negative(self, monomial: Monomial) -> bool:
        """Symbols aren't; of a function it has to be known."""
        for atom, _ in monomial:
            if atom.kind != "symbol":
                low = self._atom_interval(atom.kind, atom.name, atom.args)[0]
                if low is None or low < 0:
                    return False
        return True

    def _shift(self, value: Dim) -> Dim:
        table: dict[str, Dim] = {}
        used = symbols_of(value)
        for name, (low, high) in self.symbols.items():
            if name not in used:
                continue
            slope, _ = _linear_in(value, name)
            falls = slope is not None and isinstance(slope, int) and slope < 0
            if falls and high is not None:
                table[name] = add(high, mul(symbol(name), -1))
            elif low:
                table[name] = add(symbol(name), low)
        return substitute(value, table) if table else value

    def bounds(self, value: Dim) -> tuple[int, int | None]:
        """Inclusive integer bounds (low, high or None) by interval arithmetic."""
        low, high = self._interval(value)
        return (low if low is not None else -(1 << 62)), high

    def _interval(self, value: Dim) -> tuple[int | None, int | None]:
        if isinstance(value, int):
            return value, value
        low: int | None = 0
        high: int | None = 0
        for monomial, coefficient in value.terms:
            term = self._monomial_interval(monomial, coefficient)
            low = None if low is None or term[0] is None else low + term[0]
            high = None if high is None or term[1] is None else high + term[1]
        return low, high

    def _monomial_interval(
        self, monomial: Monomial, coefficient: int
    ) -> tuple[int | None, int | None]:
        low: int | None = 1
        high: int | None = 1
        for atom, power in monomial:
            a, b = self._atom_interval(atom.kind, atom.name, atom.args)
            if a is None or a < 0:
                return None, None
            for _ in range(power):
                low = None if low is None else low * a
                high = None if high is None or b is None else high * b
        if coefficient >= 0:
            return (
                None if low is None else low * coefficient,
                None if high is None else high * coefficient,
            )
        return (
            None if high is None else high * coefficient,
            None if low is None else low * coefficient,
        )

    def _atom_interval(
        self, kind: str, name: str, args: tuple[Dim, ...]
    ) -> tuple[int | None, int | None]:
        if kind == "symbol":
            if name in self.loops:
                low, high = self.loops[name]
                return self._interval(low)[0], None if high is None else self._interval(high)[1]
            return self.symbols.get(name, (0, None))
        (a, b), (c, d) = (self._interval(arg) for arg in args)
        if kind == "mod":
            return 0, None if d is None else max(d - 1, 0)
        if kind == "floordiv":
            if a is None or a < 0 or c is None or c < 1:
                return None, None
            return (a // d if d is not None else 0), (None if b is None else b // c)
        pick = max if kind == "max" else min
        return (
            pick(a, c) if a is not None and c is not None else None,
            pick(b, d) if b is not None and d is not None else None,
        )

    def simplify(self, value: Dim) -> Dim:
        """Rewrite floordiv and mod away wherever the bounds prove it."""
        if isinstance(value, int) or not _has_function(value):
            return value
        known = self._simple.get(value)
        if known is None:
            known = self._simple[value] = self._simplified(value)
        return known

    def _simplified(self, value: Expr) -> Dim:
        total: Dim = 0
        for monomial, coefficient in value.terms:
            term: Dim = coefficient
            for atom, power in monomial:
                factor: Dim
                if atom.kind == "symbol":
                    factor = Expr(((((atom, 1),), 1),))
                else:
                    factor = self._simplify_function(atom.kind, atom.args)
                for _ in range(power):
                    term = mul(term, factor)
            total = add(total, term)
        return _rejoin(total)

    def _simplify_function(self, kind: str, args: tuple[Dim, ...]) -> Dim:
        a, b = (self.simplify(arg) for arg in args)
        if kind in ("floordiv", "mod"):
            quotient, rest = split_multiple(a, b)
            if self.nonnegative(rest) and self.less(rest, b):
                return quotient if kind == "floordiv" else rest
            if kind == "floordiv":
                return add(quotient, floordiv(rest, b)) if rest != a else floordiv(a, b)
            return mod(rest, b)
        if kind == "max":
            if self.nonnegative(add(a, mul(b, -1))):
                return a
            if self.nonnegative(add(b, mul(a, -1))):
                return b
        if kind == "min":
            if self.nonnegative(add(a, mul(b, -1))):
                return b
            if self.nonnegative(add(b, mul(a, -1))):
                return a
        return APPLY[kind](a, b)


def _multiple_of_quotient(monomial: Monomial, coefficient: int) -> Dim | None:
    """The least that k * c * (a // c) can be: k * (a - c + 1) for k > 0, k * a for k < 0."""
    if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].kind != "floordiv":
        return None
    a, c = monomial[0][0].args
    if not isinstance(c, int) or c <= 0 or coefficient % c:
        return None
    times = coefficient // c
    return mul(add(a, 1 - c) if times > 0 else a, times)


def _has_function(value: Expr) -> bool:
    return any(atom.kind != "symbol" for monomial, _ in value.terms for atom, _ in monomial)


def _linear_in(value: Dim, name: str) -> tuple[Dim | None, Dim]:
    """(slope, rest) with value == slope * name + rest; slope None where it is not linear."""
    if isinstance(value, int):
        return 0, value
    slope: Dim = 0
    rest: Dim = 0
    for monomial, coefficient in value.terms:
        others: list[tuple[Atom, int]] = []
        power_here = 0
        for atom, power in monomial:
            if atom.kind == "symbol" and atom.name == name:
                power_here = power
            elif atom.kind != "symbol" and name in _names(atom.args):
                return None, value
            else:
                others.append((atom, power))
        term: Dim = Expr(((tuple(others), coefficient),)) if others else coefficient
        if power_here == 0:
            rest = add(rest, term)
        elif power_here == 1:
            slope = add(slope, term)
        else:
            return None, value
    return slope, rest


def _names(args: tuple[Dim, ...]) -> set[str]:
    found: set[str] = set()
    for arg in args:
        found |= symbols_of(arg)
    return found


def _rejoin(value: Dim) -> Dim:
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
                return _rejoin(add(add(without, mul(as_mod, -1)), mul(scale, a)))
    return value


def _term_list(value: Dim) -> tuple[tuple[Monomial, int], ...]:
    return value.terms if isinstance(value, Expr) else ()
