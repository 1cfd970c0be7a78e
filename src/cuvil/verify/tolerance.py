"""How closely an artifact must meet its source: by dtype, and by how far rounding moves it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.ir.core import Module
from cuvil.ir.types import DTYPES, I8, U8
from cuvil.ops.numeric import is_float
from cuvil.reference.interpreter import run_module
from cuvil.verify.conditioning import outputs_with_noise, unit_of

Array = np.ndarray[Any, Any]
Run = Callable[[Mapping[str, Array]], Sequence[Array]]
# (of the output's scale, of each element) by the narrowest floating dtype that is computed in:
# some units of rounding, as a source and a build round intermediate results at different places.
_TOLERANCES = {"bf16": (3e-2, 3e-2), "f16": (4e-3, 4e-3)}
_WIDE = (1e-5, 1e-3)
_TRIALS = 3
_FACTOR = 4.0
_SUM = 1e-6  # a sum of products in f32 is off by some units


def tolerance_of(module: Module, precision: str = "f32") -> tuple[float, float]:
    """(atol of the output's scale, rtol of each element) that fits a captured module, compiled for
    ``precision``."""
    computed = {
        value.type.dtype.name
        for op in module.main.walk()
        if op.short != "constant"
        for value in op.results
    } | {precision}
    return tolerance_among(computed)


def tolerance_among(computed: Collection[str]) -> tuple[float, float]:
    """The same by the names of the dtypes that are computed in."""
    return next((pair for name, pair in _TOLERANCES.items() if name in computed), _WIDE)


def movement(
    module: Module,
    run: Run,
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int],
    precision: str = "f32",
    found: Sequence[Array] | None = None,
) -> list[Array]:
    """How far each output element of the source may move by rounding alone, as float64.

    Four times the largest move of the element, or of half of its output's elements, over a few
    runs whose floating inputs are off by one unit of rounding, up or down at random. A source
    without such inputs is run by the reference interpreter instead, with each result off by one
    unit. A unit is that of the element type, or of ``precision`` if that is coarser. What does not
    stay finite gives no allowance. Whole numbers that jump, as places do, may be what a run gave
    and nothing in between: the allowance is for that where it is ``found``.
    """
    least = 0.0 if precision == "f32" else unit_of(DTYPES[precision].numpy)
    rng = np.random.default_rng(0)
    floating = any(is_floating(array) for array in inputs.values())
    exact = [np.asarray(a) for a in (run(inputs) if floating else run_module(module, inputs))]
    moved = [np.zeros(a.shape) for a in exact]
    met = [np.zeros(a.shape, bool) for a in exact]
    same = found is not None and [a.shape for a in found] == [a.shape for a in exact]
    given: Sequence[Array | None] = found if found is not None and same else [None] * len(exact)
    for seed in range(_TRIALS):
        if floating:
            noisy = run({name: off_by_a_unit(a, rng, least) for name, a in inputs.items()})
        else:
            noisy = outputs_with_noise(module, inputs, symbols, seed, least)
        for at, (a, b) in enumerate(zip(exact, map(np.asarray, noisy), strict=True)):
            if a.shape == b.shape:
                np.maximum(moved[at], _distance(a, b), out=moved[at])
                met[at] |= _met(b, given[at])
    quantised = rounds_to_codes(module)
    steps = _steps(module, inputs, symbols) if quantised else [0.0] * len(exact)
    return [
        np.maximum(_FACTOR * np.maximum(m, np.median(m)), step) if m.size and is_floating(a)
        else _of_whole(a, m, f, seen)
        for a, m, f, seen, step in zip(exact, moved, given, met, steps, strict=True)
    ]  # fmt: skip


def rounds_to_codes(module: Module) -> bool:
    """Whether a model rounds floats to integers of 8 bits, as quantised ones do."""
    shorts = {op.short for op in module.main.walk()}
    return "round" in shorts and any(
        op.short == "cast" and op.operands[0].type.dtype.is_float and op.type.dtype in (I8, U8)
        for op in module.main.walk()
    )


def _steps(module: Module, inputs: Mapping[str, Array], symbols: Mapping[str, int]) -> list[float]:
    """How far each output moves at most where every result is off by what a sum of many products
    may be: an element that did not move may do so elsewhere, but no further."""
    exact = run_module(module, inputs)
    far = [0.0] * len(exact)
    for seed in range(_TRIALS):
        noisy = outputs_with_noise(module, inputs, symbols, seed, _SUM)
        for at, (a, b) in enumerate(zip(exact, noisy, strict=True)):
            if a.size and a.shape == b.shape:
                far[at] = max(far[at], float(_distance(a, b).max()))
    return far


def _met(reached: Array, found: Array | None) -> Array:
    return reached == found if found is not None else np.zeros(reached.shape, bool)


def _of_whole(exact: Array, moved: Array, found: Array | None, met: Array) -> Array:
    """The allowance of whole numbers and truth values: by their movement where that is a step, or
    small beside the number itself; else for what was met."""
    if not moved.size or is_floating(exact):
        return moved
    size = np.abs(exact.astype(np.float64))
    small = moved <= np.maximum(1.0, _WIDE[0] * size.max() + _WIDE[1] * size)
    jump = moved if found is None else np.where(met, _distance(exact, found), 0.0)
    return np.where(small, _FACTOR * moved, jump)


def _distance(a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        distance: Array = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isfinite(distance), distance, 0.0)


def off_by_a_unit(array: Array, rng: np.random.Generator, least: float = 0.0) -> Array:
    """Every element of a floating array times 1 plus or minus its dtype's unit of rounding, or
    ``least`` if that is larger."""
    if not is_floating(array):
        return array
    signs = rng.integers(0, 2, array.shape, dtype=np.int8) * 2 - 1
    unit = max(unit_of(array.dtype), least)
    noisy: Array = (array.astype(np.float64) * (1 + signs * unit)).astype(array.dtype)
    return noisy


def is_floating(array: Array) -> bool:
    """Whether an array holds floats that are computed with; bfloat16 is of NumPy's kind "V"."""
    return is_float(array)
