"""Outputs against the source where that rounds, and against the source in float64.

Each element must be within tolerance of one of the two. Beside a result that overflows in the
source, the scale of the other is no measure, so that an element is held to the smaller of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuvil.verify.report import OutputError, Tolerance, compare, differences, scale_of

Array = np.ndarray[Any, Any]


def compare_either(
    names: Sequence[str], expected: Sequence[Array], exact: Sequence[Array],
    given: Sequence[Array], atol: float, rtol: float,
) -> list[OutputError]:  # fmt: skip
    """Compare outputs with ``expected`` or ``exact``, element by element."""
    items = zip(names, expected, exact, given, strict=True)
    return [_either(*item, atol, rtol) for item in items]


def as_stored(exact: Array, dtype: np.dtype[Any]) -> Array:
    """A result in float64, with infinities for numbers beyond those of the type that it is for."""
    if exact.dtype.kind != "f" or dtype.kind != "f":
        return exact
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(dtype)
    return np.where(np.isinf(rounded), rounded.astype(np.float64), exact)


def _either(
    name: str, expected: Array, exact: Array, given: Array, atol: float, rtol: float
) -> OutputError:
    expected, exact, given = (np.asarray(a) for a in (expected, exact, given))
    exact = as_stored(exact, given.dtype)
    (plain,) = compare([name], [expected], [given], atol, rtol)
    if plain.passed or not expected.shape == exact.shape == given.shape:
        return plain
    scales = scale_of(expected), scale_of(exact)
    least = min((s for s in scales if s is not None), default=None)
    off, wrong = differences(expected, given, Tolerance(atol, rtol, scales[0]))
    other, still = differences(exact, given, Tolerance(atol, rtol, least))
    bad = wrong & still
    left = np.where(wrong, other, off)
    at = np.unravel_index(int(np.argmax(np.where(bad, np.inf, left) if bad.any() else left)),
                          left.shape)  # fmt: skip
    worst = [
        float(part.max(initial=0.0)) / (scale or 1.0)
        for part, scale in zip((off[~wrong], other[wrong]), scales, strict=True)
    ]
    return OutputError(
        name, tuple(expected.shape), float(left.max()), max(worst), int(np.count_nonzero(bad)),
        tuple(int(i) for i in at),
    )  # fmt: skip
