"""Dimension expressions as C++ text."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.errors import ShapeConstraintError
from cuvil.sym.expr import Atom, Dim, Monomial

_FUNCTIONS = {"floordiv": "floordiv", "mod": "mod", "max": "maximum", "min": "minimum"}

_HIGHEST = (1 << 63) - 1
_MOST_ADDED = 1 << 62  # so that a sum with a symbol's value fits as well
_SHOWN = 200


def cxx(expr: Dim, names: Mapping[str, str]) -> str:
    """C++ text for an expression; ``names`` gives each symbol's C++ spelling.

    The text is one operand: a literal, a name, a call or a parenthesised sum, so that it may
    stand beside any operator. It needs ``abi.hpp`` (cuvil::floordiv, mod, maximum, minimum) and
    serves int64_t and cuvil::Checked alike. Raises KeyError for a symbol without a name,
    ShapeConstraintError for a number that does not fit 64 bits.
    """
    if isinstance(expr, int):
        _check(expr, expr, _HIGHEST + (expr < 0))
        return str(expr) if expr >= 0 else f"({expr})"
    pieces = []
    for monomial, coefficient in expr.terms:
        factors = _factors(monomial, names)
        size = abs(coefficient)
        _check(expr, size, _HIGHEST if monomial else _MOST_ADDED)
        if size != 1 or not factors:
            factors.insert(0, str(size))
        sign = "-" if coefficient < 0 else "+"
        pieces.append((sign, " * ".join(factors)))
    if len(pieces) == 1 and pieces[0][0] == "+" and " * " not in pieces[0][1]:
        return pieces[0][1]
    first_sign, text = pieces[0]
    if first_sign == "-":
        text = "-" + text
    for sign, piece in pieces[1:]:
        text += f" {sign} {piece}"
    return f"({text})"


def _factors(monomial: Monomial, names: Mapping[str, str]) -> list[str]:
    factors: list[str] = []
    for atom, power in monomial:
        factors.extend([_atom(atom, names)] * power)
    return factors


def _atom(atom: Atom, names: Mapping[str, str]) -> str:
    if atom.kind == "symbol":
        return names[atom.name]
    left, right = (cxx(arg, names) for arg in atom.args)
    return f"cuvil::{_FUNCTIONS[atom.kind]}({left}, {right})"


def _check(expr: Dim, number: int, most: int) -> None:
    if abs(number) <= most:
        return
    text = str(expr)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    raise ShapeConstraintError(
        f"the size {text} needs more than 64 bits: it holds the number {number}",
        hint="give the sizes that it is computed of fixed values, or compute it in fewer steps",
        stage="codegen",
    )
