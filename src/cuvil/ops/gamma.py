"""Gamma functions and the inverse of erf."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from cuvil.ops.base import OpDef
from cuvil.ops.elementwise import float_map


def _lgamma(x: float) -> float:
    if abs(x) > 1e305 or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def _erfinv(x: float) -> float:
    """Newton's method from a bracket, by erfc where x is near an end."""
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    size, low, high = abs(x), 0.0, 6.0
    if size < 1e-8:
        return x * math.sqrt(math.pi) / 2
    y = 0.0
    for _ in range(200):
        gap = math.erf(y) - size if size < 0.5 else (1 - size) - math.erfc(y)
        low, high = (low, y) if gap > 0 else (y, high)
        new = y - gap * math.sqrt(math.pi) / 2 * math.exp(y * y)
        new = new if low < new < high else (low + high) / 2
        if new == y:
            break
        y = new
    return math.copysign(y, x)


def _front(a: float, x: float) -> float:
    """x**a e**-x / gamma(a); for great a by Stirling's series, so that nothing cancels."""
    if a >= 20:
        gap = (x - a) / a
        power = math.log1p(gap) - gap if abs(gap) < 0.5 else math.log(x / a) - gap
        rest = 1 / (12 * a) - 1 / (360 * a**3) + 1 / (1260 * a**5) - 1 / (1680 * a**7)
        rest += 1 / (1188 * a**9)
        return math.exp(a * power - rest) * math.sqrt(a / (2 * math.pi))
    return math.exp(a * math.log(x) - x - math.lgamma(a))


def _lower(a: float, x: float) -> float:
    """P by its power series."""
    term, total, n = 1.0, 1.0, a
    while term > 1e-17 * total:
        n += 1
        term *= x / n
        total += term
    return _front(a, x) / a * total


def _upper(a: float, x: float) -> float:
    """Q by its continued fraction, from the end (Abramowitz and Stegun, 6.5.31)."""
    value = 0.0
    for n in range(3000, 0, -1):
        value = n * (a - n) / (x + 2 * n + 1 - a + value)
    return _front(a, x) / (x + 1 - a + value)


def _incomplete(a: float, x: float, upper: bool) -> float:
    if math.isnan(a) or math.isnan(x) or a < 0 or x < 0:
        return math.nan
    none, full = (1.0, 0.0) if upper else (0.0, 1.0)
    if a == 0:
        return full if x > 0 else math.nan
    if x == 0:
        return none
    if math.isinf(a):
        return math.nan if math.isinf(x) else none
    if math.isinf(x):
        return full
    if a > 1e5:  # Wilson and Hilferty: a cube root of gamma is nearly normal
        spread = 1 / (9 * a)
        z = ((x / a) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
        return 0.5 * math.erfc(z / math.sqrt(2) if upper else -z / math.sqrt(2))
    if x < a + 1:
        lower = _lower(a, x)
        return 1 - lower if upper else lower
    above = _upper(a, x)
    return above if upper else 1 - above


_FUNCTIONS: Mapping[str, tuple[Callable[..., float], int, str]] = {
    "lgamma": (_lgamma, 1, "log |gamma(x)|"),
    "erfinv": (_erfinv, 1, "The number whose erf is x."),
    "igamma": (lambda a, x: _incomplete(a, x, False), 2,
               "The regularised lower incomplete gamma function of a and x."),
    "igammac": (lambda a, x: _incomplete(a, x, True), 2,
                "The regularised upper incomplete gamma function of a and x."),
}  # fmt: skip


DEFS: list[OpDef] = [
    float_map(name, np.vectorize(function, otypes=[np.float64]), arity, doc, "accumulated")
    for name, (function, arity, doc) in _FUNCTIONS.items()
]
