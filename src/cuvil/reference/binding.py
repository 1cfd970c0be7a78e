"""From concrete sizes to the values of symbols, with every dimension and constraint checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cuvil.errors import ShapeConstraintError
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, Expr, substitute, symbols_of

SymbolBounds = Mapping[str, tuple[int, "int | None"]]


@dataclass(frozen=True)
class Seen:
    """One declared dimension and the size it has in this call; ``label`` says whose it is."""

    label: str
    dim: Dim
    size: int


def solve_linear(dim: Dim, size: int) -> tuple[str, int] | None:
    """(symbol, value) with dim == size, where dim is ``a * symbol + b``; None if it isn't.

    The value is rounded down where a does not divide: the check that follows reports it.
    """
    if not isinstance(dim, Expr):
        return None
    if len(symbols_of(dim)) != 1:
        return None
    (name,) = symbols_of(dim)
    slope, rest = 0, 0
    for monomial, coefficient in dim.terms:
        if not monomial:
            rest = coefficient
        elif len(monomial) == 1 and monomial[0][0].kind == "symbol" and monomial[0][1] == 1:
            slope = coefficient
        else:
            return None
    return (name, (size - rest) // slope) if slope else None


def bind_symbols(
    seen: Sequence[Seen],
    symbols: SymbolBounds,
    constraints: Iterable[Constraint] = (),
    known: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Values of the symbols that the sizes decide; ``known`` holds values given from outside.

    Raises ShapeConstraintError, in plain words, for the first dimension, bound or constraint that
    the sizes break. Constraints over symbols that stay unknown are left to the caller.
    """
    table: dict[str, int] = dict(known or {})
    pending = list(seen)
    while pending:
        rest = []
        for item in pending:
            solved = solve_linear(substitute(item.dim, table), item.size)
            if solved is None:
                rest.append(item)
            else:
                table[solved[0]] = solved[1]
        if len(rest) == len(pending):
            break
        pending = rest
    for item in seen:
        _check_size(item, table)
    check_bounds(table, symbols)
    check_constraints(constraints, table)
    return table


def _check_size(item: Seen, table: Mapping[str, int]) -> None:
    expected = substitute(item.dim, table)
    if expected == item.size:
        return
    if isinstance(expected, Expr):
        raise ShapeConstraintError(
            f"{item.label} is {item.size}, which does not decide {', '.join(symbols_of(expected))} "
            f"in {item.dim}",
            hint="pass the values of these symbols",
        )
    needed = str(expected)
    if isinstance(item.dim, Expr):
        names = sorted(symbols_of(item.dim))
        values = ", ".join(f"{n} = {table[n]}" for n in names)
        needed = f"{expected} ({item.dim} with {values})"
        if str(item.dim) in names:
            needed = f"{expected}: {item.dim} has that value elsewhere in this call"
    raise ShapeConstraintError(
        f"{item.label} is {item.size}, but must be {needed}",
        hint="make the sizes of the inputs agree",
    )


def check_bounds(table: Mapping[str, int], symbols: SymbolBounds) -> None:
    """Raise ShapeConstraintError for the first symbol outside its inclusive bounds."""
    for name, value in table.items():
        low, high = symbols.get(name, (0, None))
        if value < low or (high is not None and value > high):
            allowed = f"{low} or more" if high is None else f"{low} to {high}"
            raise ShapeConstraintError(
                f"dimension {name} is {value}, but may only be {allowed}",
                hint=f"pass a size of {allowed}, or compile with wider bounds for {name}",
            )


def check_constraints(constraints: Iterable[Constraint], table: Mapping[str, int]) -> None:
    """Raise ShapeConstraintError for the first constraint that these values break."""
    for constraint in constraints:
        names = constraint.symbols()
        if not names <= table.keys() or constraint.holds(table):
            continue
        values = ", ".join(f"{n} = {table[n]}" for n in sorted(names))
        raise ShapeConstraintError(
            f"the constraint {constraint} does not hold with {values}",
            where=constraint.origin,
            hint="pass sizes that satisfy it",
        )
