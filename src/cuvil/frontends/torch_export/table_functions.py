"""torch.special: Bessel and normal-distribution functions, polynomials, error functions.

Formulas are evaluated in f64 whatever the operand's float type, so that f32 results are rounded
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from cuvil.frontends import special
from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import binary, operands, unary
from cuvil.ir.core import Value
from cuvil.ir.types import F64

Formula = Callable[[Term], Term]


def wide(formula: Formula) -> Rule:
    """A formula in f64 of the operand, which is first brought to the result's dtype."""

    def rule(c: Call) -> Value:
        x = Term(c.e, c.e.cast(c.first, c.dtype))
        return formula(x.cast(F64)).cast(c.dtype).value

    return rule



def _ndtr(c: Call) -> Value:
    """(1 + erf(x / sqrt 2)) / 2, in the result's type: 0 far on the left, as torch has it"""
    x = Term(c.e, c.e.cast(c.first, c.dtype))
    return ((1 + (x * math.sqrt(0.5)).map("erf")) * 0.5).value


def _pair(name: str) -> Rule:
    """A map of two operands in the result's float dtype."""

    def rule(c: Call) -> Value:
        return c.e.map(name, *operands(c, c.dtype))

    return rule


def _shifted(name: str) -> Rule:
    """A Chebyshev polynomial of 2 x - 1."""

    def rule(c: Call) -> Value:
        x, n = (Term(c.e, v) for v in operands(c, c.dtype))
        return (x + x - 1).map(name, n).value

    return rule


def _xlog1py(c: Call) -> Value:
    """x log1p(y), 0 where x is 0 and y is a number"""
    x, y = (Term(c.e, v) for v in operands(c, c.dtype))
    product = x * y.map("log1p")
    zero = x.equals(0).map("and", ~y.map("isnan"))
    return zero.where(0.0, product).value


def _polygamma(c: Call) -> Value:
    """Order 0 is digamma; order n is (-1)**(n + 1) n! zeta(n + 1, x)."""
    order = int(c.number("n"))
    x = Term(c.e, c.e.cast(c.tensor("self"), c.dtype))
    wide_x = x.cast(F64)
    if order == 0:
        return special.digamma(wide_x).cast(c.dtype).value
    if order == 1:
        return special.trigamma(x).value
    if order > 170:
        raise Refused(f"polygamma of order {order}: its factorial is beyond f64")
    scale = math.factorial(order) * (1.0 if order % 2 else -1.0)
    out = wide_x.lift(float(order + 1)).map("zeta", wide_x) * scale
    return out.cast(c.dtype).value


_WIDE: dict[str, Formula] = {
    "i0": special.i0, "special_i0": special.i0, "special_modified_bessel_i0": special.i0,
    "special_i0e": special.i0e,
    "special_i1": special.i1, "special_modified_bessel_i1": special.i1,
    "special_i1e": special.i1e,
    "special_modified_bessel_k0": special.k0, "special_modified_bessel_k1": special.k1,
    "special_scaled_modified_bessel_k0": partial(special.k0, scaled=True),
    "special_scaled_modified_bessel_k1": partial(special.k1, scaled=True),
    "special_bessel_j0": special.j0, "special_bessel_j1": special.j1,
    "special_bessel_y0": special.y0, "special_bessel_y1": special.y1,
    "special_spherical_bessel_j0": special.spherical_j0,
    "special_airy_ai": special.airy_ai,
    "special_ndtri": special.ndtri, "special_log_ndtr": special.log_ndtr,
    "special_entr": special.entr,
    "digamma": special.digamma, "special_digamma": special.digamma, "special_psi": special.digamma,
}  # fmt: skip
_POLYNOMIALS = {"hermite_polynomial_h": "hermite_h", "hermite_polynomial_he": "hermite_he",
                "laguerre_polynomial_l": "laguerre", "legendre_polynomial_p": "legendre",
                **{f"chebyshev_polynomial_{k}": f"chebyshev_{k}" for k in "tuvw"}}  # fmt: skip

def _multigamma(c: Call) -> Value:
    """log of the multivariate gamma function: lgamma at x, x - 1/2, ... and a constant."""
    p = int(c.number("p"))
    x = Term(c.e, c.e.cast(c.first, c.dtype)).cast(F64)
    out = x.lift(p * (p - 1) / 4 * math.log(math.pi))
    for j in range(p):
        out = out + (x - j / 2).map("lgamma")
    return out.cast(c.dtype).value


RULES: dict[str, Rule] = {
    "lgamma": unary("lgamma"), "special_gammaln": unary("lgamma"),
    "mvlgamma": _multigamma, "special_multigammaln": _multigamma,
    "erfinv": unary("erfinv"), "special_erfinv": unary("erfinv"),
    "igamma": binary("igamma"), "special_gammainc": binary("igamma"),
    "igammac": binary("igammac"), "special_gammaincc": binary("igammac"),
    **{name: wide(formula) for name, formula in _WIDE.items()},
    **{f"special_{name}": _pair(op) for name, op in _POLYNOMIALS.items()},
    **{f"special_shifted_chebyshev_polynomial_{k}": _shifted(f"chebyshev_{k}") for k in "tuvw"},
    "special_ndtr": _ndtr,
    "special_erfcx": unary("erfcx"),
    "erfc": unary("erfc"), "special_erfc": unary("erfc"),
    "special_zeta": _pair("zeta"),
    "polygamma": _polygamma, "special_polygamma": _polygamma,
    "special_xlog1py": _xlog1py,
}  # fmt: skip
