"""What is known of symbols, and the proofs that follow by linear reasoning.

``Facts`` holds an inclusive lower and upper bound for each symbol; the bounds of loop variables
may be expressions over other symbols. A proof substitutes each bounded variable by the end that
makes the value smallest and then asks whether all coefficients are non-negative; what that can't
decide is left unproved (never guessed).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

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
    total,
)
from cuvil.sym.forms import (
    has_function,
    is_atom,
    linear_in,
    multiple_of_quotient,
    rejoin,
    symbols_in,
    unrounded,
)
from cuvil.sym.points import Bounds, Point, points_within


class Facts:
    """Bounds by symbol name; ``loops`` are the variables with symbolic bounds, inner last."""

    def __init__(
        self,
        symbols: Mapping[str, tuple[int, int | None]] | None = None,
        loops: Mapping[str, Bounds] | None = None,
        assumed: Iterable[Dim] = (),
    ) -> None:
        self.symbols = dict(symbols or {})
        self.loops = dict(loops or {})
        self._proofs: dict[Dim, bool] = {}
        self._simple: dict[Dim, Dim] = {}
        self._functions: dict[Atom, Dim] = {}
        self._outer: Facts | None = None  # these, without the innermost loops
        self._nested: dict[tuple[tuple[str, Bounds], ...], Facts] = {}
        self.assumed = dict.fromkeys(assumed)  # expressions that are taken to be >= 0

    def assuming(self, assumed: Iterable[Dim]) -> Facts:
        """The same bounds with other assumptions; what the bounds alone prove is kept."""
        other = Facts(self.symbols, self.loops, assumed)
        other._proofs, other._points = self._proofs, self._points
        return other

    def tried(self, value: Dim) -> list[int | None]:
        """What a value is at a few points within the bounds; None where that is not known."""
        return [point.at(value) for point in self._points]

    @cached_property
    def _points(self) -> list[Point]:
        return points_within(self.symbols, self.loops)

    @cached_property
    def _assumed_at(self) -> list[list[int | None]]:
        """The assumed expressions' values at each point."""
        return [self.tried(known) for known in self.assumed]

    def with_loops(self, loops: Mapping[str, Bounds]) -> Facts:
        """The same facts and more loop variables."""
        key = tuple(loops.items())
        if key not in self._nested:
            nested = Facts(self.symbols, {**self.loops, **loops}, self.assumed)
            if self.loops.keys().isdisjoint(loops):
                nested._outer = self
            self._nested[key] = nested
        return self._nested[key]

    def nonnegative(self, value: Dim) -> bool:
        """Whether value >= 0 is proved."""
        value = unrounded(value)
        if isinstance(value, int):
            return value >= 0
        if value in self.assumed or self._proved(value):
            return True
        here = self.tried(value) if self.assumed else []
        for known, there in zip(self.assumed, self._assumed_at, strict=True):
            for a, b in zip(here, there, strict=True):
                if a is not None and b is not None and a < b:
                    break
            else:
                if self._proved(add(value, mul(known, -1))):
                    return True
        return False

    def _proved(self, value: Dim) -> bool:
        if isinstance(value, int):
            return value >= 0
        known = self._proofs.get(value)
        if known is None:
            self._proofs[value] = False  # while it is being decided
            if self._refuted(value):
                return False
            known = self._proved_by_sides(value)
            if known is None:
                lowest = self._lowest(value)
                known = lowest is not None and self._coefficients_nonnegative(lowest)
            self._proofs[value] = known
        return known

    def _refuted(self, value: Expr) -> bool:
        """Whether the value is negative somewhere within the bounds, as far as points tell."""
        return any((found := point.at(value)) is not None and found < 0 for point in self._points)

    def _proved_by_sides(self, value: Expr) -> bool | None:
        """Replace a max or min by its sides. ``+max(a, b)`` and ``-min(a, b)`` are at least what
        either side gives, so one side proves it; for the others both must. None: there is none."""
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
        return None

    def less(self, a: Dim, b: Dim) -> bool:
        """Whether a < b is proved."""
        return self.nonnegative(add(b, add(mul(a, -1), -1)))

    def positive(self, value: Dim) -> bool:
        """Whether value >= 1 is proved."""
        return self.nonnegative(add(value, -1))

    def floordiv(self, a: Dim, b: Dim) -> Dim:
        """a // b, simplified."""
        quotient, rest = split_multiple(a, b)
        return quotient if self._within(rest, b) else self.simplify(floordiv(a, b))

    def mod(self, a: Dim, b: Dim) -> Dim:
        """a % b, simplified."""
        _, rest = split_multiple(a, b)
        return rest if self._within(rest, b) else self.simplify(mod(a, b))

    def _within(self, value: Dim, end: Dim) -> bool:
        """Whether 0 <= value < end is proved."""
        return self.nonnegative(value) and self.less(value, end)

    def _lowest(self, value: Dim) -> Dim | None:
        """``value`` with loop variables and opaque functions replaced by the end that is least."""
        for name in reversed(self.loops):
            if isinstance(value, int):
                return value
            slope, rest = linear_in(value, name)
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
        ends: list[Dim] = []
        for monomial, coefficient in value.terms:
            rounded = multiple_of_quotient(monomial, coefficient)
            if rounded is not None:
                ends.append(rounded)
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
            ends.append(term)
        return total(ends)

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
            slope, _ = linear_in(value, name)
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
        if isinstance(value, int) or not has_function(value):
            return value
        known = self._simple.get(value)
        if known is None:
            known = self._simple[value] = self._simplified(value)
        return known

    def _simplified(self, value: Expr) -> Dim:
        if all(
            atom.kind == "symbol" or is_atom(self._simplify_function(atom), atom)
            for monomial, _ in value.terms
            for atom, _ in monomial
        ):
            return rejoin(value)
        parts: list[Dim] = []
        for monomial, coefficient in value.terms:
            term: Dim = coefficient
            for atom, power in monomial:
                factor: Dim
                if atom.kind == "symbol":
                    factor = Expr(((((atom, 1),), 1),))
                else:
                    factor = self._simplify_function(atom)
                for _ in range(power):
                    term = mul(term, factor)
            parts.append(term)
        return rejoin(total(parts))

    def _simplify_function(self, atom: Atom) -> Dim:
        known = self._functions.get(atom)
        if known is None:
            outer = self._outer
            if outer is None or symbols_in(atom.args) & (self.loops.keys() - outer.loops.keys()):
                known = self._simplified_function(atom.kind, atom.args)
            else:
                known = outer._simplify_function(atom)
            self._functions[atom] = known
        return known

    def _simplified_function(self, kind: str, args: tuple[Dim, ...]) -> Dim:
        a, b = (self.simplify(arg) for arg in args)
        if kind in ("floordiv", "mod"):
            quotient, rest = split_multiple(a, b)
            if self._within(rest, b):
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
