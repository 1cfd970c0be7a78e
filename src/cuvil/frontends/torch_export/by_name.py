"""Specs of inputs, given by name, as the arguments of a call."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, TypeVar

from cuvil.errors import InputError
from cuvil.frontends.torch_export.program import ExportedProgram, user_inputs

Spec = TypeVar("Spec", bound=Sequence[Any])


def in_call_order(model: Any, specs: Sequence[Spec]) -> tuple[list[Spec], bool]:
    """The specs, whose first items are names, in the order of the call's arguments, and whether
    they have to be given as keywords, because parameters in between are left out.

    Names of parameters of ``forward`` are these parameters, in whatever order they come. Others
    are new names for the parameters at their places. Raises InputError where some are of each kind
    and one of the first doesn't stand at its parameter's place.
    """
    positional, keywords = _parameters(model)
    names = [str(spec[0]) for spec in specs]
    places = {name: i for i, name in enumerate((*positional, *keywords))}
    known = [name for name in names if name in places]
    if not known or len(set(names)) < len(names):
        return list(specs), False
    if len(known) < len(names):
        _check_places(names, places)
        return list(specs), False
    ordered = sorted(specs, key=lambda spec: places[str(spec[0])])
    return ordered, [str(spec[0]) for spec in ordered] != positional[: len(ordered)]


def _check_places(names: Sequence[str], places: dict[str, int]) -> None:
    new = next(name for name in names if name not in places)
    for place, name in enumerate(names):
        if places.get(name, place) != place:
            raise InputError(
                f"the spec of input {name!r} comes at place {place + 1}, and forward's parameter "
                f"of that name is number {places[name] + 1}; {new!r} is no parameter of it",
                hint=f"give all inputs the names of forward's parameters ({', '.join(places)}), in "
                "any order, or give them in its order, where a new name renames an input",
            )


def _parameters(model: Any) -> tuple[list[str], list[str]]:
    """Names of what ``forward`` takes by position, or by keyword alone; none where that can't be
    known."""
    if isinstance(model, ExportedProgram):
        return [str(s.arg.name) for s in user_inputs(model)], []
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (AttributeError, TypeError, ValueError):  # a script may lack its forward
        return [], []
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        [p.name for p in parameters if p.kind in by_place],
        [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY],
    )
