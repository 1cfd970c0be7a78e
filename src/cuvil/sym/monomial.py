"""Products of atoms: factors with their powers, in the order of the atoms' keys."""

from __future__ import annotations

from typing import Any

Factors = tuple[tuple[Any, int], ...]  # atoms of sym.expr


def order(term: tuple[Factors, int]) -> tuple[int, list[tuple[int, str]]]:
    """The place of a product with its coefficient in a sum: of higher degree first, a constant
    last."""
    return -sum([power for _, power in term[0]]), [atom.key for atom, _ in term[0]]


def times(a: Factors, b: Factors) -> Factors:
    """a * b"""
    if not a:
        return b
    if not b:
        return a
    if a[-1][0].key < b[0][0].key:
        return a + b
    if b[-1][0].key < a[0][0].key:
        return b + a
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def divide(a: Factors, b: Factors) -> Factors | None:
    """a / b, None where ``b`` does not divide ``a``."""
    powers = dict(a)
    for atom, power in b:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        if left:
            powers[atom] = left
        else:
            powers.pop(atom, None)
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))
