"""What torch learnt of the symbols while tracing: guards, as constraints with their origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export.symbols import TorchSymbols, Untranslatable, implied, tighten
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import APPLY, Dim, mul, substitute, symbol
from cuvil.sym.facts import Facts
from cuvil.sym.plain import plain
from cuvil.sym.solver import require_satisfiable

Bounds = dict[str, tuple[int, "int | None"]]
SMALL = 4  # sizes below it are tried, where a guard excludes only such
MOST_SPECIAL = 16  # so are those below what a special case of an operator excludes, up to this


def collect_guards(
    env: Any, places: Mapping[str, str], symbols: TorchSymbols, notes: list[str]
) -> list[Constraint]:
    """The environment's guards over named symbols.

    Raises ShapeConstraintError for a guard over the inputs' sizes that can't be expressed: a
    program that may not run at some size must say so.
    """
    found: list[Constraint] = []
    for guard in getattr(env, "guards", ()):
        expression = env.replace(guard.expr)
        place = places.get(str(guard.expr), "")
        names = {s.name for s in expression.free_symbols}
        if not names <= symbols.table.keys():
            continue
        origin = f"the model's own code at {place}" if place else "torch.export"
        try:
            found += symbols.constraints(expression, origin)
        except Untranslatable as error:
            raise ShapeConstraintError(
                f"tracing found the condition {guard.expr}, which can't be kept: {error}",
                where=place,
                hint="make this dim static, or rewrite the line so that it needs no such condition",
            ) from None
    return found


@dataclass(frozen=True)
class Kept:
    """Constraints to keep, and those that only exclude a few small sizes."""

    firm: list[Constraint]
    small: list[Constraint]


def _raised(bounds: Bounds, low: int) -> Facts:
    return Facts({n: (max(a, low), high) for n, (a, high) in bounds.items()})


def follows(guard: Constraint, firm: Sequence[Constraint], bounds: Bounds) -> bool:
    """Whether the guard is implied once ``n % c == 0`` is used to write n as c * k."""
    table: dict[str, Dim] = {}
    for rule in firm:
        name = _divided(rule)
        if name is not None:
            table[name[0]] = mul(symbol(f"{name[0]}__quotient"), name[1])
    if not table:
        return False
    left, right = substitute(guard.left, table), substitute(guard.right, table)
    known = {n: b for n, b in bounds.items() if n not in table}
    return implied(Constraint(left, guard.relation, right), Facts(known))


def _divided(rule: Constraint) -> tuple[str, int] | None:
    """(name, c) of a rule ``name % c == 0``."""
    if rule.relation != "==" or rule.right != 0 or isinstance(rule.left, int):
        return None
    atoms = [atom for monomial, _ in rule.left.terms for atom, _ in monomial]
    if len(atoms) != 1 or atoms[0].kind != "mod" or rule.left != APPLY["mod"](*atoms[0].args):
        return None
    name, by = atoms[0].args
    plain = str(name).isidentifier() and isinstance(by, int)
    return (str(name), int(by)) if plain else None  # type: ignore[arg-type]


def sort_guards(
    guards: Sequence[Constraint], bounds: Bounds, origins: Mapping[str, str], *, movable: bool
) -> Kept:
    """Drop what the bounds imply and narrow the bounds by what is firm. Where the guards are
    ``movable`` (the model can be run again), those that exclude only sizes below 4, or a special
    case of an operator, are set aside.
    """
    given = dict(bounds)
    facts = Facts(bounds)
    larger = _raised(bounds, SMALL)
    firm: list[Constraint] = []
    small: list[Constraint] = []
    for guard, special in _in_plain_words(guards, bounds):
        if implied(guard, facts) or guard in firm or (guard in small and not guard.asked):
            continue
        if guard.known() is False:
            raise ShapeConstraintError(
                f"the model needs {guard}, which never holds", where=guard.origin,
                hint="give the dims other names or bounds, or change that line",
            )
        if movable and not guard.asked and (special or implied(guard, larger)):
            small.append(guard)
        elif guard.asked or not follows(guard, firm, bounds):
            firm.append(guard)
            try:
                tighten(bounds, guard)
            except ShapeConstraintError:
                require_satisfiable(firm, given, origins=origins)
                raise
            facts = Facts(bounds)
    return Kept(strongest(firm), [g for g in small if not implied(g, facts)])


def strongest(rules: Sequence[Constraint]) -> list[Constraint]:
    """The rules without lower bounds of a symbol that another one has higher."""
    least: dict[Dim, int] = {}
    for rule in rules:
        if rule.relation == ">=" and isinstance(rule.right, int):
            least[rule.left] = max(rule.right, least.get(rule.left, rule.right))
    return [
        rule for rule in rules
        if rule.asked or rule.relation != ">=" or least.get(rule.left, rule.right) == rule.right
    ]  # fmt: skip


def _in_plain_words(
    guards: Sequence[Constraint], bounds: Bounds
) -> Iterator[tuple[Constraint, bool]]:
    """What each guard comes to within the bounds, as they are when it is asked for; and whether
    it only leaves out a few sizes that are a special case of an operator."""
    for guard in guards:
        names = guard.symbols()
        parts = None if guard.asked else plain(guard, bounds)
        beyond = {n: (max(bounds[n][0], MOST_SPECIAL + 1), bounds[n][1]) for n in names & {*bounds}}
        special = guard.relation == "!=" and len(names) == 1 and plain(guard, beyond) == ()
        for part in (guard,) if parts is None else parts:
            yield part, special


def _above_excluded(name: str, guards: Sequence[Constraint]) -> int:
    """The size from which on no guard excludes one, as far as they are tried."""
    own = [g for g in guards if g.symbols() == {name}]
    failing = [s for s in range(MOST_SPECIAL + 1) for g in own if not g.holds({name: s})]
    return max(SMALL, *(s + 1 for s in failing), 0)


Agrees = Callable[[Mapping[str, int]], bool]


def settle_small(
    small: Sequence[Constraint],
    firm: Sequence[Constraint],
    bounds: Bounds,
    sizes: Mapping[str, int],
    agrees: Agrees,
) -> list[Constraint]:
    """Decide guards that exclude only small sizes, by running the program at those sizes.

    Such a guard marks a branch that was taken for larger sizes, or a special case of an operator.
    ``agrees(sizes)`` says whether the traced program gives what the model gives. Where it does,
    the guard is dropped; where it doesn't, the size and those below stay excluded. A size above
    the example's that no guard excludes needs no such proof: data may have to fit it.
    """
    sizes = _quick(sizes, bounds, firm, agrees)
    kept: list[Constraint] = []
    lowest: dict[str, int] = {}
    for name in sorted({n for g in small for n in g.symbols()}):
        low, high = bounds[name]
        for size in range(_above_excluded(name, small) - 1, low - 1, -1):
            if high is not None and size > high:
                continue
            trial = {**sizes, name: size}
            if not _holding(firm, trial):
                continue  # refused anyway
            if not agrees(trial):
                if size > sizes[name] and _holding(small, trial):
                    continue  # the data of an example of this size, not the program, is at fault
                kept.append(_at_least(name, size + 1, small))
                break
            lowest[name] = size
    if len(lowest) > 1 and not agrees({**sizes, **lowest}):
        return list(small)
    for constraint in kept:
        tighten(bounds, constraint)
    return kept


def _holding(guards: Sequence[Constraint], sizes: Mapping[str, int]) -> bool:
    """Whether all that speak of these sizes alone hold."""
    return all(g.holds(sizes) for g in guards if g.symbols() <= sizes.keys())


def _quick(
    sizes: Mapping[str, int], bounds: Bounds, firm: Sequence[Constraint], agrees: Agrees
) -> Mapping[str, int]:
    """Smaller sizes to run at, none of them below 4, if the model takes them."""
    chosen = dict(sizes)
    for name, size in sizes.items():
        low, high = bounds[name]
        for candidate in (SMALL + 1, 8, 16, 32, 64):
            inside = low <= candidate < size and (high is None or candidate <= high)
            table = {**chosen, name: candidate}
            if inside and _holding(firm, table):
                chosen = table
                break
    return chosen if chosen == sizes or agrees(chosen) else sizes


def _at_least(name: str, low: int, small: Sequence[Constraint]) -> Constraint:
    """``name >= low`` with the origin of a guard over it, one that names a place if possible."""
    origins = [g.origin for g in small if name in g.symbols()]
    origin = next((o for o in origins if ":" in o), origins[0])
    return Constraint(symbol(name), ">=", low, origin)


def outputs_agree(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]) -> bool:
    """Whether two runs gave the same tensors, up to the rounding of a reordered sum."""
    if len(expected) != len(actual):
        return False
    for a, b in zip(expected, actual, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.is_floating_point:
            if not torch.allclose(a.float(), b.float(), rtol=1e-4, atol=1e-5, equal_nan=True):
                return False
        elif not torch.equal(a, b):
            return False
    return True
