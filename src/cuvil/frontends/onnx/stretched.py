"""Sizes that broadcasting requires to be equal, where ONNX would also take a 1 when it runs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from cuvil.sym.constraint import ONE_NAME, Constraint
from cuvil.sym.expr import Dim, Expr, symbol, symbols_of

log = logging.getLogger("cuvil")

Bounds = Mapping[str, tuple[int, int | None]]


def warn_of_stretching(
    constraints: Iterable[Constraint],
    asked: Sequence[Constraint],
    bounds: Bounds,
    dims: Collection[str],
) -> list[str]:
    """Warn, once for each pair, of equal sizes that broadcasting requires and the user did not ask
    for; ``dims`` are the symbols that inputs have. The same, to be kept."""
    known = {_pair(c) for c in asked}
    notes = []
    for constraint in constraints:
        open_ = [str(d) for d in (constraint.left, constraint.right) if _may_be_one(d, bounds)]
        if not constraint.stretches or not open_ or _pair(constraint) in known:
            continue
        if not constraint.symbols() <= set(dims):
            continue
        known.add(_pair(constraint))
        notes.append(
            f"{constraint} must hold in every call ({constraint.origin}): a size of 1 of "
            f"{' or '.join(open_)} is not broadcast when it runs"
        )
        log.warning("%s; %s", notes[-1], ONE_NAME)
    return notes


def _pair(constraint: Constraint) -> frozenset[str]:
    return frozenset((str(constraint.left), str(constraint.right)))


def _may_be_one(dim: Dim, bounds: Bounds) -> bool:
    """Whether it is a symbol that may be 1."""
    if not isinstance(dim, Expr):
        return False
    names = symbols_of(dim)
    if len(names) != 1 or dim != symbol(name := next(iter(names))):
        return False
    low, high = bounds.get(name, (0, None))
    return low <= 1 and (high is None or high >= 1)
