"""A predicate over symbols, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuvil.sym.expr import Dim, add, evaluate, mul, symbols_of

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

    def symbols(self) -> set[str]:
        """Names of the symbols it speaks of."""
        return symbols_of(self.left) | symbols_of(self.right)

    def holds(self, table: Mapping[str, int]) -> bool:
        """Whether it is true at these values. Raises KeyError if a symbol has none."""
        left, right = evaluate(self.left, table), evaluate(self.right, table)
        return bool(_HOLDS[self.relation](left, right))

    def known(self) -> bool | None:
        """True or False where no symbol decides it, else None."""
        difference = add(self.left, mul(self.right, -1))
        if isinstance(difference, int):
            return bool(_HOLDS[self.relation](difference, 0))
        return None
