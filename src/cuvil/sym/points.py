"""Values of symbols at which a claim is tried before anyone sets out to prove it.

A proof holds at every point within the bounds, so one point at which the claim is false ends the
search for a proof, at a hundredth of its cost.
"""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.sym.expr import Atom, Dim

Bounds = tuple[Dim, "Dim | None"]
# How far symbols are above their lower ends, and from each other.
_STEPS = (997, 7, 0)


class Point:
    """Values by symbol; one of which nothing is known is a dimension, and is ``other``."""

    def __init__(self, values: Mapping[str, int], other: int = 0) -> None:
        self.values = dict(values)
        self.other = other
        self._known: dict[Atom, int | None] = {}

    def at(self, value: Dim) -> int | None:
        """What ``value`` is here; None where a divisor is not positive."""
        if isinstance(value, int):
            return value
        total = 0
        for monomial, term in value.terms:
            for atom, power in monomial:
                known = self._of(atom)
                if known is None:
                    return None
                term *= known if power == 1 else known**power
            total += term
        return total

    def _of(self, atom: Atom) -> int | None:
        if atom.kind == "symbol":
            return self.values.get(atom.name, self.other)
        if atom not in self._known:
            self._known[atom] = self._applied(atom)
        return self._known[atom]

    def _applied(self, atom: Atom) -> int | None:
        a, b = (self.at(arg) for arg in atom.args)
        if a is None or b is None:
            return None
        if atom.kind in ("max", "min"):
            return max(a, b) if atom.kind == "max" else min(a, b)
        if b <= 0:
            return None
        return a // b if atom.kind == "floordiv" else a % b


def points_within(
    symbols: Mapping[str, tuple[int, int | None]], loops: Mapping[str, Bounds]
) -> list[Point]:
    """A few points within the bounds, each loop at either end; where one has none, no point."""
    found = []
    for step in _STEPS:
        values = {}
        for i, (name, (low, high)) in enumerate(symbols.items()):
            wanted = low + step * (i + 1)
            values[name] = wanted if high is None else min(wanted, high)
        for last in (True, False) if loops else (True,):
            point = Point(values, step)
            if _enter(point, loops, last):
                found.append(point)
    return found


def _enter(point: Point, loops: Mapping[str, Bounds], last: bool) -> bool:
    """Give the loops their first or last value; False where one of them has none."""
    for name, (low, high) in loops.items():
        begin = point.at(low)
        end = begin if high is None else point.at(high)
        if begin is None or end is None or end < begin:
            return False
        point.values[name] = end if last else begin
    return True
