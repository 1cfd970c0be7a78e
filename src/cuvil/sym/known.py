"""Facts that follow from bounds and constraints, kept for as long as these are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, add, mul
from cuvil.sym.facts import Facts
from cuvil.sym.forms import unrounded


class KnownFacts:
    """The facts that were asked for last, with all that was proved of them."""

    def __init__(self) -> None:
        self._facts = Facts()
        self._constraints: tuple[Constraint, ...] = ()

    def of(
        self,
        symbols: Mapping[str, tuple[int, int | None]],
        constraints: Sequence[Constraint],
    ) -> Facts:
        """Bounds, and the inequalities among the constraints."""
        given = tuple(constraints)
        if given != self._constraints or symbols != self._facts.symbols:
            bounds = self._facts if symbols == self._facts.symbols else Facts(symbols)
            assumed = (least for c in given for least in _inequality(c))
            self._facts, self._constraints = bounds.assuming(assumed), given
        return self._facts


def _inequality(constraint: Constraint) -> list[Dim]:
    """What is >= 0 where the constraint holds; nothing for == and !=."""
    left, right = constraint.left, constraint.right
    if constraint.relation in ("<", "<="):
        left, right = right, left
    elif constraint.relation not in (">", ">="):
        return []
    strict = constraint.relation in ("<", ">")
    return [unrounded(add(add(left, mul(right, -1)), -1 if strict else 0))]
