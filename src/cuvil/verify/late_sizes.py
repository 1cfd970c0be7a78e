"""Numbers for inputs that decide sizes: how long, from where to where, by which step or factor.

Random numbers seldom are what a model takes there, and where it does, little may be left to
compare. The reference interpreter tells which of a few draws are taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.errors import CuvilError
from cuvil.ir.core import Module, Value
from cuvil.ir.late import BINDS
from cuvil.ops.numeric import is_float
from cuvil.reference.interpreter import run_module
from cuvil.verify.dependence import Dependence

Array = np.ndarray[Any, Any]
Trial = dict[str, Array]
Draw = Callable[[int, Array, Trial, np.random.Generator], Array]
_MOST = 16  # elements of an input that tells sizes
_SECONDS = 2.0
_EACH = 4  # draws of a kind
_FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
_SMALL, _LARGE = 1 << 14, 1 << 24  # elements: of a trial that may grow much, of what it may become


class _TooLong(CuvilError):
    """A trial that no time is left for."""


def deciding_inputs(module: Module) -> list[str]:
    """The small inputs of numbers that sizes of the module are computed from."""
    found = Dependence()
    for op in module.main.walk():
        if BINDS in op.attrs:
            for value in op.operands:
                found.follow(value)
    main = module.main
    return [
        main.input_names[i]
        for i in sorted(found.inputs)
        if main.inputs[i].type.rank <= 1
        and isinstance(main.inputs[i].type.elements, int)
        and main.inputs[i].type.elements <= _MOST
        and main.inputs[i].type.dtype.kind in "iuf"
        and not main.inputs[i].type.dtype.is_narrow
    ]


def with_sizes_that_fit(
    module: Module, examples: Mapping[str, Array], trials: Sequence[Trial]
) -> list[Trial]:
    """The trials, and behind each what leaves most to compare of each kind of draw for the inputs
    that decide sizes; a trial that is refused itself gives way to those, if there are any.

    Inputs with an example keep it. It ends after a few seconds.
    """
    names = [name for name in deciding_inputs(module) if name not in examples]
    until = time.monotonic() + _SECONDS
    rng = np.random.default_rng(2)
    found: list[Trial] = []
    for trial in trials:
        more = list(_more(module, names, trial, rng, until)) if names else []
        if not more or _left(module, trial, until) is not None:
            found.append(trial)
        found += more
    return found


def _more(
    module: Module, names: Sequence[str], trial: Trial, rng: np.random.Generator, until: float
) -> Iterator[Trial]:
    for draw in _DRAWS:
        best, most = None, 0
        for _ in range(_EACH):
            drawn = {name: draw(i, trial[name], trial, rng) for i, name in enumerate(names)}
            candidate = {**trial, **drawn}
            left = _left(module, candidate, until)
            if left is not None and left > most:
                best, most = candidate, left
        if best is not None:
            yield best


def _left(module: Module, trial: Trial, until: float) -> int | None:
    """How many elements the smallest output has; None where the trial is refused, or is not through
    in time: a step of 0 may mean a loop of 2^63 turns."""

    def watch(value: Value, array: Array) -> None:
        if time.monotonic() > until:
            raise _TooLong("it takes too long")

    if time.monotonic() > until:
        return None
    try:
        return min((array.size for array in run_module(module, trial, watch=watch)), default=0)
    except CuvilError:
        return None


def _elements(trial: Trial) -> int:
    return sum(array.size for array in trial.values())


def _positive(place: int, like: Array, trial: Trial, rng: np.random.Generator) -> Array:
    """Sizes, ends, steps and repeats; factors up and down."""
    if is_float(like):
        return rng.choice(_FACTORS, like.shape).astype(like.dtype)
    return rng.integers(1, 6 if _elements(trial) <= _SMALL else 3, like.shape).astype(like.dtype)


def _ordered(place: int, like: Array, trial: Trial, rng: np.random.Generator) -> Array:
    """From near the beginning, to farther on, by small steps, in the order of the inputs."""
    low, high = ((0, 2), (2, 6), (1, 3))[min(place, 2)]
    return rng.integers(low, high, like.shape).astype(like.dtype)


def _signed(place: int, like: Array, trial: Trial, rng: np.random.Generator) -> Array:
    """Places and steps from the end as well; -1 for what is left of a shape."""
    if is_float(like) or like.dtype.kind == "u":
        return _positive(place, like, trial, rng)
    return (rng.integers(1, 4, like.shape) * rng.choice((-1, 1), like.shape)).astype(like.dtype)


def _backwards(place: int, like: Array, trial: Trial, rng: np.random.Generator) -> Array:
    """From the end, to farther ahead, by negative steps."""
    if like.dtype.kind == "u":
        return _ordered(place, like, trial, rng)
    low, high = ((-2, 0), (-6, -2), (-2, 0))[min(place, 2)]
    return rng.integers(low, high, like.shape).astype(like.dtype)


def _numbered(place: int, like: Array, trial: Trial, rng: np.random.Generator) -> Array:
    """As ``_ordered``, with the third of four or more counting through: the axes of a slice."""
    if place == 2:
        return np.arange(like.size).reshape(like.shape).astype(like.dtype)
    return _ordered(place, like, trial, rng)


def _shape(place: int, like: Array, trial: Trial, rng: np.random.Generator) -> Array:
    """The shape of another input, or all of its elements in a row."""
    most = _LARGE // max(1, _elements(trial))
    shapes = [a.shape for a in trial.values() if a is not like and a.ndim and a.size <= most]
    fitting = [s for s in shapes if like.ndim == 1 and len(s) == like.size]
    rows = [(1,) * (like.size - 1) + (int(np.prod(s)),) for s in shapes if like.size]
    choice = fitting or rows
    if is_float(like) or not choice:
        return _positive(place, like, trial, rng)
    return np.array(choice[int(rng.integers(len(choice)))], like.dtype).reshape(like.shape)


_DRAWS: tuple[Draw, ...] = (_positive, _ordered, _signed, _backwards, _numbered, _shape)
