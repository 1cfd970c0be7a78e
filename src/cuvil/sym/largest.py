"""The maximum of values that come one by one."""

from __future__ import annotations

from functools import reduce

from cuvil.sym.expr import Dim, add, maximum, mul
from cuvil.sym.facts import Facts


class Largest:
    """Keeps the values of which none is proved to be at least as large as another one."""

    def __init__(self, facts: Facts, first: Dim = 0) -> None:
        self.facts = facts
        self.values: dict[Dim, list[int | None]] = {first: facts.tried(first)}
        self._seen = {first}

    def add(self, value: Dim) -> None:
        """One value more."""
        if value in self._seen:
            return
        self._seen.add(value)
        tried = self.facts.tried(value)
        if any(self._reaches(a, at, value, tried) for a, at in self.values.items()):
            return
        kept = {a: at for a, at in self.values.items() if not self._reaches(value, tried, a, at)}
        self.values = {**kept, value: tried}

    def _reaches(
        self, a: Dim, a_tried: list[int | None], b: Dim, b_tried: list[int | None]
    ) -> bool:
        """Whether a >= b is proved; no proof is looked for where a point says otherwise."""
        for x, y in zip(a_tried, b_tried, strict=True):
            if x is not None and y is not None and x < y:
                return False
        return self.facts.nonnegative(add(a, mul(b, -1)))

    @property
    def value(self) -> Dim:
        """The maximum, the same for the same values in any order."""
        return reduce(maximum, sorted(self.values, key=str))
