"""What torch learnt of the symbols while tracing: guards, as constraints with their origin."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export.symbols import TorchSymbols, Untranslatable, implied, tighten
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import symbol
from cuvil.sym.facts import Facts

_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parent)
Bounds = dict[str, tuple[int, "int | None"]]


@contextmanager
def guard_places() -> Iterator[dict[str, str]]:
    """Notes the line of user code at which each guard arises, by the guard's text."""
    places: dict[str, str] = {}
    original: Any = getattr(ShapeEnv, "_log_guard", None)
    if original is None:
        yield places
        return

    def noted(self: Any, prefix: str, guard: Any, *args: Any, **kwargs: Any) -> Any:
        places.setdefault(str(guard), _user_line())
        return original(self, prefix, guard, *args, **kwargs)

    ShapeEnv._log_guard = noted  # type: ignore[method-assign]
    try:
        yield places
    finally:
        ShapeEnv._log_guard = original  # type: ignore[method-assign]


def _user_line() -> str:
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith((_TORCH, _HERE, "<")):
            return f"{Path(frame.filename).name}:{frame.lineno}"
    return ""


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
    """Constraints to keep, and those that only exclude sizes 0 and 1."""

    firm: list[Constraint]
    small: list[Constraint]


def sort_guards(guards: Sequence[Constraint], bounds: Bounds) -> Kept:
    """Drop what the bounds imply; narrow the bounds by what is firm; set aside 0/1 exclusions."""
    facts = Facts(bounds)
    larger = Facts({n: (max(low, 2), high) for n, (low, high) in bounds.items()})
    firm: list[Constraint] = []
    small: list[Constraint] = []
    for guard in guards:
        if implied(guard, facts) or guard in firm or guard in small:
            continue
        if guard.known() is False:
            raise ShapeConstraintError(
                f"the model needs {guard}, which never holds", where=guard.origin
            )
        (small if implied(guard, larger) else firm).append(guard)
    for guard in firm:
        tighten(bounds, guard)
    facts = Facts(bounds)
    return Kept(firm, [g for g in small if not implied(g, facts)])


Agrees = Callable[[Mapping[str, int]], bool]


def settle_small(
    small: Sequence[Constraint], bounds: Bounds, sizes: Mapping[str, int], agrees: Agrees
) -> list[Constraint]:
    """Decide guards that exclude only sizes 0 and 1, by running the program at those sizes.

    Such a guard marks a branch that was taken for larger sizes, or a special case of an operator.
    ``agrees(sizes)`` says whether the traced program gives what the model gives. Where it does,
    the guard is dropped; where it doesn't, the size stays excluded.
    """
    names = sorted({n for g in small for n in g.symbols()})
    kept: list[Constraint] = []
    lowest: dict[str, int] = {}
    for name in names:
        low, high = bounds[name]
        origin = next(g.origin for g in small if name in g.symbols())
        for size in (1, 0):
            if size < low or (high is not None and size > high):
                continue
            if not agrees({**sizes, name: size}):
                kept.append(Constraint(symbol(name), ">=", size + 1, origin))
                break
            lowest[name] = size
    if len(lowest) > 1 and not agrees({**sizes, **lowest}):
        return list(small)
    for constraint in kept:
        tighten(bounds, constraint)
    return kept




def outputs_agree(
    expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]
) -> bool:
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
