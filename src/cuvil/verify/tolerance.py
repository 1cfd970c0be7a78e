"""How closely an artifact must meet its source: by dtype, and by how far rounding moves it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.ir.core import Module
from cuvil.ir.types import DTYPES
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
) -> list[Array]:
    """How far each output element of the source may move by rounding alone, as float64.

    Four times the largest move of the element, or of half of its output's elements, over a few
    runs whose floating inputs are off by one unit of rounding, up or down at random. A source
    without such inputs is run by the reference interpreter instead, with each result off by one
    unit. A unit is that of the element type, or of ``precision`` if that is coarser. What does not
    stay finite gives no allowance.
    """
    least = 0.0 if precision == "f32" else unit_of(DTYPES[precision].numpy)
    rng = np.random.default_rng(0)
    floating = any(is_floating(array) for array in inputs.values())
    exact = [np.asarray(a) for a in (run(inputs) if floating else run_module(module, inputs))]
    moved = [np.zeros(a.shape) for a in exact]
    for seed in range(_TRIALS):
        if floating:
            noisy = run({name: off_by_a_unit(a, rng, least) for name, a in inputs.items()})
        else:
            noisy = outputs_with_noise(module, inputs, symbols, seed, least)
        for at, (a, b) in enumerate(zip(exact, map(np.asarray, noisy), strict=True)):
            if a.shape == b.shape:
                np.maximum(moved[at], _distance(a, b), out=moved[at])
    return [
        _FACTOR * (np.maximum(m, np.median(m)) if m.size and is_floating(a) else m)
        for m, a in zip(moved, exact, strict=True)
    ]


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
