"""Special functions that no formula over other maps gives: error functions, zeta, polynomials.

The orthogonal polynomials take the degree as a float, as torch.special has them, and cut it to an
integer; a negative degree gives 0. They are computed in the operand's own type by torch's choice of
recurrence or closed form, so that they overflow to NaN where torch's do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from cuvil.ops.base import Array, OpDef
from cuvil.ops.elementwise import float_map

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _erfcx(x: Array) -> Array:
    """exp(x**2) erfc(x): the square in two parts so that its rounding doesn't count; beyond 20 the
    asymptotic series (Abramowitz and Stegun, 7.1.23)."""
    size = np.abs(np.minimum(np.maximum(x, -30.0), 20.0))
    head = size.astype(np.float32).astype(np.float64)
    grown = np.exp(head * head) * np.exp((size - head) * (size + head))
    small = grown * np.where(x < 0, 2 - _erfc(size), _erfc(size))
    far = np.maximum(x, 20.0)
    term, total = np.ones_like(far), np.ones_like(far)
    for k in range(1, 10):
        term = term * -(2 * k - 1) / (2 * far * far)
        total = total + term
    return np.where(x > 20, total / far / math.sqrt(math.pi), small)


_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip


def _zeta(x: Array, q: Array) -> Array:
    """The sum of (k + q)**-x over k >= 0 by Euler and Maclaurin (Abramowitz and Stegun, 23.2.9)."""
    steps = np.maximum(12, np.ceil(12 - np.where(np.isfinite(q), np.maximum(q, -1e4), 0)))
    total = np.zeros_like(q + x)
    for k in range(int(np.max(steps, initial=0))):
        total = np.where(k < steps, total + np.power(q + k, -x), total)
    w = q + steps
    total = total + np.power(w, 1 - x) / (x - 1) + 0.5 * np.power(w, -x)
    factor = x * np.power(w, -x - 1)
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * k) * factor
        factor = factor * (x + 2 * k - 1) * (x + 2 * k) / (w * w)
    total = np.where(q == np.inf, np.nan, total)
    pole = (q <= 0) & (q == np.floor(q))
    total = np.where((q <= 0) & ~pole & (x != np.floor(x)), np.nan, total)
    total = np.where(pole, np.inf, total)
    total = np.where(x == 1, np.inf, np.where(x < 1, np.nan, total))
    return np.where(np.isnan(x) | (np.isnan(q) & (x != 1)), np.nan, total)


Step = Callable[[Array, Array, Array, int], Array]


def _degree(n: Array) -> Array:
    """As int64; what is no number or out of range becomes negative."""
    inside = np.isfinite(n) & (np.abs(n) < 2.0**62)
    return np.where(inside, n, -1).astype(np.int64)


def _recur(x: Array, n: Array, first: Array, step: Step) -> Array:
    """P_n from P_0 = 1 and P_1, until a value is NaN."""
    older, old = np.ones_like(x), np.array(first)
    out = np.where(n <= 0, older, old)
    for k in range(1, int(np.max(n, initial=0))):
        new = step(x, old, older, k)
        go = (k < n) & ~np.isnan(old)
        out = np.where(go, new, out)
        older, old = np.where(go, old, older), np.where(go, new, old)
    return out


Ends = Callable[[Array], Array]


def _chebyshev(
    first: Callable[[Array], Array],
    limit: int,
    closed: Callable[[Array, Array], Array],
    ends: tuple[Ends, Ends],
) -> Callable[[Array, Array], Array]:
    """A Chebyshev polynomial: cosines inside (-1, 1) beyond a degree; ``ends`` are its size at 1
    and at -1, where it has the sign of (-1)**n."""

    def run(x: Array, degree: Array) -> Array:
        n = _degree(degree)
        turned = (n > limit) & (np.abs(x) < 1)
        fixed = np.abs(x) == 1
        plain = _recur(x, np.where(turned | fixed, 0, n), first(x),
                       lambda x, q, p, k: (x + x) * q - p)  # fmt: skip
        real = n.astype(x.dtype)
        out = np.where(turned, closed(np.arccos(np.clip(x, -1, 1)), real), plain)
        left = np.where(n % 2 == 0, 1, -1) * ends[1](real)
        out = np.where(fixed, np.where(x > 0, ends[0](real), left), out)
        return np.where(n < 0, 0, out).astype(x.dtype)

    return run


def _hermite(factor: int) -> Callable[[Array, Array], Array]:
    """Hermite polynomials: the physicists' (2) and the probabilists' (1); NaN beyond the degree
    where their numbers overflow."""

    def run(x: Array, degree: Array) -> Array:
        n = _degree(degree)
        limit = 512 if x.dtype == np.float64 else 128
        step: Step = lambda x, q, p, k: factor * x * q - factor * k * p  # noqa: E731
        kept = np.where(n > limit, 0, n)
        out = np.where(n > limit, np.nan, _recur(x, kept, factor * x, step))
        return np.where(n < 0, 0, out).astype(x.dtype)

    return run


def _laguerre(x: Array, degree: Array) -> Array:
    n = _degree(degree)
    step: Step = lambda x, q, p, k: (((2 * k) + (1 - x)) * q - k * p) / (k + 1)  # noqa: E731
    out = np.where(x == 0, 1, _recur(x, np.where(x == 0, 0, n), 1 - x, step))
    return np.where(n < 0, 0, out).astype(x.dtype)


def _legendre(x: Array, degree: Array) -> Array:
    n = _degree(degree)
    fixed = np.abs(x) == 1
    step: Step = lambda x, q, p, k: ((2 * k + 1) * x * q - k * p) / (k + 1)  # noqa: E731
    sign = np.where((x > 0) | (n % 2 == 0), 1, -1)
    out = np.where(fixed, sign, _recur(x, np.where(fixed, 0, n), x, step))
    return np.where(n < 0, 0, out).astype(x.dtype)


def _one(n: Array) -> Array:
    return np.ones_like(n)


def _next(n: Array) -> Array:
    return n + 1


def _odd(n: Array) -> Array:
    return n + n + 1


def _ratio(above: Array, below: Array) -> Array:
    return above / np.where(below == 0, 1, below)


_POLYNOMIALS: Mapping[str, Callable[[Array, Array], Array]] = {
    "chebyshev_t": _chebyshev(lambda x: x, 6, lambda a, n: np.cos(n * a), (_one, _one)),
    "chebyshev_u": _chebyshev(
        lambda x: x + x, 8, lambda a, n: _ratio(np.sin((n + 1) * a), np.sin(a)),
        (_next, _next),
    ),
    "chebyshev_v": _chebyshev(
        lambda x: x + x - 1, 8,
        lambda a, n: _ratio(np.cos((n + a.dtype.type(0.5)) * a), np.cos(a / 2)),
        (_one, _odd),
    ),
    "chebyshev_w": _chebyshev(
        lambda x: x + x + 1, 8,
        lambda a, n: _ratio(np.sin((n + a.dtype.type(0.5)) * a), np.sin(a / 2)),
        (_odd, _one),
    ),
    "hermite_h": _hermite(2),
    "hermite_he": _hermite(1),
    "laguerre": _laguerre,
    "legendre": _legendre,
}  # fmt: skip

_WIDE: Mapping[str, tuple[Callable[..., Array], int]] = {
    "erfc": (_erfc, 1),
    "erfcx": (_erfcx, 1),
    "zeta": (_zeta, 2),
}


_DOCS: Mapping[str, str] = {
    "erfc": "1 - erf(x) without cancellation.",
    "erfcx": "exp(x**2) erfc(x).",
    "zeta": "Hurwitz's zeta function of x and q; inf at x = 1 and q = 0, -1, ..; NaN for x < 1.",
}

DEFS: list[OpDef] = [
    *(float_map(n, f, arity, _DOCS[n], "close") for n, (f, arity) in _WIDE.items()),
    *(float_map(n, f, 2, "x, degree: see the family's notes.", "accumulated", in_f64=False)
      for n, f in _POLYNOMIALS.items()),
]  # fmt: skip
