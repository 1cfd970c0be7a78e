"""Bessel, Airy and normal-distribution functions as formulas over f64 tensors.

Each takes a :class:`Term` of f64 and gives one, accurate to a few units of 1e-16 relative to the
function's size near the argument; f32 operands computed this way are right to the last place but
near zeros of the oscillating functions, where the rounding of the operand counts. Branches are
those of the Cephes library (see special_tables.py), all computed and then selected.
"""

from __future__ import annotations

import math

from cuvil.frontends import special_tables as t
from cuvil.frontends.formula import Term

_NAN, _INF = math.nan, math.inf
_QUARTER_PI, _THREE_QUARTER_PI = 0.25 * math.pi, 0.75 * math.pi
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_2_OVER_PI = 2 / math.pi
_EXP_MINUS_2 = 0.13533528323661269189


def _ratio(x: Term, above: tuple[float, ...], below: tuple[float, ...]) -> Term:
    return x.polynomial(above) / x.polynomial(below)


def _inside(x: Term, low: float, high: float) -> Term:
    """x clamped, so that a branch that isn't taken stays finite."""
    return x.map("max", low).map("min", high)


def i0e(x: Term) -> Term:
    """exp(-|x|) I0(x)"""
    x = abs(x)
    near = (_inside(x, 0, 8) / 2 - 2).chebyshev(t.I0_A)
    far = (32 / x.map("max", 8) - 2).chebyshev(t.I0_B) / x.map("sqrt")
    return (x <= 8).where(near, far)


def i1e(x: Term) -> Term:
    """exp(-|x|) I1(x), odd"""
    size = abs(x)
    near = (_inside(size, 0, 8) / 2 - 2).chebyshev(t.I1_A) * size
    far = (32 / size.map("max", 8) - 2).chebyshev(t.I1_B) / size.map("sqrt")
    out = (size <= 8).where(near, far)
    return (x < 0).where(-out, out)


def i0(x: Term) -> Term:
    return abs(x).map("exp") * i0e(x)


def i1(x: Term) -> Term:
    return abs(x).map("exp") * i1e(x)


def _k(x: Term, near: Term, table: tuple[float, ...], scaled: bool) -> Term:
    """K of order 0 or 1 from its value up to 2; inf at 0, NaN below."""
    far = (8 / x.map("max", 2) - 2).chebyshev(table) / x.map("sqrt")
    if scaled:
        near = near * _inside(x, 0, 2).map("exp")
    else:
        far = far * (-x).map("exp")
    out = (x <= 2).where(near, far)
    return (x < 0).where(_NAN, x.equals(0).where(_INF, out))


def k0(x: Term, scaled: bool = False) -> Term:
    """K0(x), times exp(x) if scaled"""
    part = _inside(x, 0, 2)
    near = (part * part - 2).chebyshev(t.K0_A) - (0.5 * part).map("log") * i0(part)
    return _k(x, near, t.K0_B, scaled)


def k1(x: Term, scaled: bool = False) -> Term:
    """K1(x), times exp(x) if scaled"""
    part = _inside(x, 0, 2)
    near = (part * part - 2).chebyshev(t.K1_A) / part + (0.5 * part).map("log") * i1(part)
    return _k(x, near, t.K1_B, scaled)


def _waves(x: Term, order: int, second: bool) -> Term:
    """J or Y of order 0 or 1 beyond 5 by Hankel's asymptotic expansion."""
    x = x.map("max", 5)
    if order == 0:
        tables, shift = (t.J0_PP, t.J0_PQ, t.J0_QP, t.J0_QQ), _QUARTER_PI
    else:
        tables, shift = (t.J1_PP, t.J1_PQ, t.J1_QP, t.J1_QQ), _THREE_QUARTER_PI
    z = 25 / (x * x)
    p, q = _ratio(z, *tables[:2]), _ratio(z, *tables[2:]) * (5 / x)
    sin, cos = (x - shift).map("sin"), (x - shift).map("cos")
    total = p * sin + q * cos if second else p * cos - q * sin
    return total * _ROOT_2_OVER_PI / x.map("sqrt")


def j0(x: Term) -> Term:
    x = abs(x)
    z = _inside(x, 0, 5) * _inside(x, 0, 5)
    near = (z - 5.78318596294678452118) * (z - 30.4712623436620863991)
    near = near * _ratio(z, t.J0_RP, t.J0_RQ)
    near = (x < 1e-5).where(1 - z / 4, near)
    return (x <= 5).where(near, _waves(x, 0, second=False))


def j1(x: Term) -> Term:
    size = abs(x)
    part = _inside(size, 0, 5)
    z = part * part
    near = _ratio(z, t.J1_RP, t.J1_RQ) * part
    near = near * (z - 14.6819706421238932572) * (z - 49.2184563216946036703)
    out = (size <= 5).where(near, _waves(size, 1, second=False))
    return (x < 0).where(-out, out)


def _y(x: Term, near: Term, order: int) -> Term:
    """-inf at 0, NaN below"""
    out = (x <= 5).where(near, _waves(x, order, second=True))
    return (x < 0).where(_NAN, x.equals(0).where(-_INF, out))


def y0(x: Term) -> Term:
    part = _inside(x, 0, 5)
    z = part * part
    return _y(x, _ratio(z, t.Y0_YP, t.Y0_YQ) + _2_OVER_PI * part.map("log") * j0(part), 0)


def y1(x: Term) -> Term:
    part = _inside(x, 0, 5)
    z = part * part
    near = part * _ratio(z, t.Y1_YP, t.Y1_YQ)
    near = near + _2_OVER_PI * (j1(part) * part.map("log") - 1 / part)
    return _y(x, near, 1)


def spherical_j0(x: Term) -> Term:
    """sin(x) / x"""
    z = x * x
    series = z.polynomial([(-1.0) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)])
    out = (abs(x) < 0.5).where(series, x.map("sin") / x)
    return x.map("isinf").where(0.0, out)


def airy_ai(x: Term) -> Term:
    """Ai(x); NaN at both infinities, as torch has it"""
    low, high = (-x).map("max", 2.09), _inside(x, 2.09, 104)
    root = low.map("sqrt")
    phase = 2 / 3 * low * root
    z = 1 / phase
    turn = phase + _QUARTER_PI
    f = 1 + z * z * _ratio(z * z, t.AIRY_AFN, t.AIRY_AFD)
    g = z * _ratio(z * z, t.AIRY_AGN, t.AIRY_AGD)
    left = turn.map("sin") * f - turn.map("cos") * g
    left = left / (math.sqrt(math.pi) * root.map("sqrt"))
    zeta = 2 / 3 * high * high.map("sqrt")
    right = _ratio(1 / zeta, t.AIRY_AN, t.AIRY_AD) / (
        2 * math.sqrt(math.pi) * high.map("sqrt").map("sqrt") * zeta.map("exp")
    )
    out = (x >= 2.09).where(right, (x < -2.09).where(left, _airy_series(_inside(x, -2.09, 2.09))))
    out = (x > 103.892).where(0.0, out)
    return x.map("isinf").where(_NAN, out)


def _airy_series(x: Term) -> Term:
    """c1 f(x) - c2 g(x), power series in x**3 (Abramowitz and Stegun, 10.4.2)."""
    f, g = [1.0], [1.0]
    for k in range(1, 16):
        f.append(f[-1] / ((3 * k - 1) * 3 * k))
        g.append(g[-1] / (3 * k * (3 * k + 1)))
    z = x * x * x
    first, second = z.polynomial(f[::-1]), x * z.polynomial(g[::-1])
    return 0.355028053887817239260 * first - 0.258819403792806798405 * second


def ndtri(y: Term) -> Term:
    """The quantile of the normal distribution"""
    upper = y > 1 - _EXP_MINUS_2
    tail = upper.where(1 - y, y)
    middle = y - 0.5
    z = middle * middle
    centre = middle + middle * (z * _ratio(z, t.NDTRI_P0, t.NDTRI_Q0))
    x = (-2 * _inside(tail, 5e-324, 1).map("log")).map("sqrt").map("max", 1)
    inverse = 1 / x
    first = inverse * _ratio(inverse, t.NDTRI_P1, t.NDTRI_Q1)
    second = inverse * _ratio(inverse, t.NDTRI_P2, t.NDTRI_Q2)
    far = x - x.map("log") / x - (x < 8).where(first, second)
    out = (tail > _EXP_MINUS_2).where(centre * math.sqrt(2 * math.pi), upper.where(far, -far))
    out = y.equals(0).where(-_INF, y.equals(1).where(_INF, out))
    return ((y < 0) | (y > 1)).where(_NAN, out)


def log_ndtr(x: Term) -> Term:
    """The logarithm of the normal distribution function"""
    scaled = x * math.sqrt(0.5)
    low = ((-scaled).map("erfcx") / 2).map("log") - scaled * scaled
    return (x < -1).where(low, (-scaled.map("erfc") / 2).map("log1p"))


def entr(x: Term) -> Term:
    """-x log(x), 0 at 0, -inf below"""
    out = -x * x.map("log")
    return (x < 0).where(-_INF, x.equals(0).where(0.0, out))


_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)


def digamma(x: Term) -> Term:
    """The derivative of log gamma: the asymptotic series from 10 on (Abramowitz and Stegun,
    6.3.18), recurrence below, reflection for negative numbers; -inf at 0, inf at -0."""
    reflected = 1 - x
    place = (x < 0).where(reflected, x)
    total = place.lift(0.0)
    for _ in range(10):
        small = place < 10
        total = total - small.where(1 / place, 0.0)
        place = small.where(place + 1, place)
    z = 1 / (place * place)
    total = total + place.map("log") - 0.5 / place - z * z.polynomial(_DIGAMMA)
    rest = x - x.map("trunc")
    turned = (rest * math.pi).map("sin") / (rest * math.pi).map("cos")
    mirrored = total - math.pi / turned
    out = (x < 0).where(rest.equals(0).where(_NAN, mirrored), total)
    return x.equals(0).where(-1 / x, out)


def trigamma(x: Term) -> Term:
    """The derivative of digamma in the operand's own type, term by term as torch computes it: at
    zero and the negative integers it is as large as the sine's rounding lets it be."""
    low = x < 0.5
    sine = (x * math.pi).map("sin")
    total = low.where(-(math.pi * math.pi) / (sine * sine), 0.0)
    place = low.where(1 - x, x)
    for _ in range(6):
        total = total + 1 / (place * place)
        place = place + 1
    z = 1 / (place * place)
    total = total + (1 + 1 / (2 * place) + z * z.polynomial((1 / 42, -1 / 30, 1 / 6))) / place
    return low.where(-total, total)
