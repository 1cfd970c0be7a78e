"""How far a correct program may be from the reference, found by disturbing the reference.

Every float result that a compiled program may round otherwise (sums, products that contract,
functions) is multiplied by 1 plus a few units in the last place of noise. What comes out shows
how much each output element depends on rounding, through cancellation and normalisation too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cuvil.ir.core import Module, Op
from cuvil.ops.registry import registry
from cuvil.reference import interpreter
from tests.ops.values import Array

_RUNS = 4
_FACTOR = 32.0
_FLOOR = 8.0
_CONTRACTS = ("cuvil.add", "cuvil.sub", "cuvil.mul", "cuvil.div")
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


class _Noisy(interpreter._Run):
    """The interpreter with noise on results."""

    rng: np.random.Generator

    def op(self, op: Op, operands: list[Array]) -> list[Array]:
        definition = registry().get(op.name)
        tolerance = definition.tolerance if definition is not None else "exact"
        if tolerance == "accumulated":  # rounds inside, too
            operands = [self._disturbed(a) for a in operands]
        rounds = tolerance != "exact" or op.name in _CONTRACTS
        return [
            self._disturbed(r) if rounds or r.dtype.itemsize == 2 else r
            for r in super().op(op, operands)
        ]

    def _disturbed(self, array: Array) -> Array:
        eps = _EPS.get(array.dtype.name)
        if eps is None:
            return array
        with np.errstate(all="ignore"):
            factor = 1 + eps * self.rng.uniform(-2, 2, array.shape)
            return (array.astype(np.float64) * factor).astype(array.dtype)


def disturbed_outputs(module: Module, inputs: Mapping[str, Array], seed: int) -> list[Array]:
    """The outputs of one noisy run."""
    function = module.main
    arrays = interpreter._arguments(function, inputs)
    run = _Noisy(interpreter._bind(function, arrays, None), None)
    run.rng = np.random.default_rng(seed)
    return run.block(function.body, arrays)


def differences(
    got: Sequence[Array], want: Sequence[Array], noisy: Sequence[Sequence[Array]]
) -> list[tuple[int, str]]:
    """(output, what is wrong) for each output that is further off than rounding explains."""
    found = []
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        problem = _difference(a, b, [run[index] for run in noisy])
        if problem:
            found.append((index, problem))
    return found


def noisy_runs(module: Module, inputs: Mapping[str, Array]) -> list[list[Array]]:
    """A few runs with different noise."""
    return [disturbed_outputs(module, inputs, seed) for seed in range(_RUNS)]


def _difference(got: Array, want: Array, noisy: Sequence[Array]) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    eps = _EPS.get(want.dtype.name)
    if eps is None:
        # What noise changes in an integer says nothing of how far it may go.
        stable = np.ones(want.shape, bool)
        for run in noisy:
            stable &= run == want
        return _first(stable & (got != want), got, want)
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        spread = np.zeros(want.shape)
        shaken = np.zeros(want.shape, bool)
        for run in noisy:
            wide = run.astype(np.float64)
            shaken |= np.isnan(wide) != np.isnan(b)
            spread = np.maximum(spread, np.nan_to_num(np.abs(wide - b)))
        largest = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        scale = np.max(spread, initial=0.0) * 0.25
        allowed = _FACTOR * np.maximum(spread, scale) + _FLOOR * eps * (np.abs(b) + 0.1 * largest)
        good = (np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)) | shaken
    return _first(~good, got, want)


def _first(bad: Array, got: Array, want: Array) -> str:
    if not bad.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"{int(bad.sum())} of {bad.size} elements differ, the first at {list(place)}: "
        f"{got[place]!r}, expected {want[place]!r}"
    )
