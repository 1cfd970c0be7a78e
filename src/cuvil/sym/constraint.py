"""A predicate over symbols, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuvil.sym.expr import Dim, add, evaluate, mul, symbols_of

GIVEN = "given by the user"
BROADCAST = "broadcasting along dimension"  # stands in the origin of what that requires
ONE_NAME = (
    "compile with that dim fixed to 1 if it is broadcast, or give both dims one name if they are "
    "always equal"
)

_HOLDS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}


@dataclass(frozen=True)
class Constraint:
    """``left relation right``; ``origin`` says who asked for it (user, guard, op and place)."""

    left: Dim
    relation: str
    right: Dim
    origin: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"

    @property
    def asked(self) -> bool:
        """Whether the user asked for it; it is kept then, whatever the model needs."""
        return self.origin.startswith(GIVEN)

    @property
    def stretches(self) -> bool:
        """Whether broadcasting requires it, which a size of 1 would be stretched by."""
        return self.relation == "==" and BROADCAST in self.origin

    def symbols(self) -> frozenset[str]:
        """Names of the symbols it speaks of."""
        return symbols_of(self.left) | symbols_of(self.right)

    def holds(self, table: Mapping[str, int]) -> bool:
        """Whether it is true at these values; it is not where it divides by 0. Raises KeyError if
        a symbol has none."""
        try:
            left, right = evaluate(self.left, table), evaluate(self.right, table)
        except ZeroDivisionError:
            return False
        return bool(_HOLDS[self.relation](left, right))

    def known(self) -> bool | None:
        """True or False where no symbol decides it, else None."""
        difference = add(self.left, mul(self.right, -1))
        if isinstance(difference, int):
            return bool(_HOLDS[self.relation](difference, 0))
        return None


def given_as(text: str) -> str:
    """The origin of what the user wrote, in the user's own words."""
    return f"{GIVEN} as {text}"


def in_words(origin: str) -> str:
    """An origin as it stands in brackets behind what it explains."""
    return origin if not origin or origin.startswith(GIVEN) else f"from {origin}"
