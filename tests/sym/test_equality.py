"""Equalities between expressions that follow from == constraints."""

from __future__ import annotations

import pytest

from cuvil.sym.equality import Equality, solve_for_symbol
from cuvil.sym.expr import symbol
from cuvil.sym.parse import parse_constraint, parse_dim


@pytest.mark.parametrize(
    ("constraints", "a", "b", "expected"),
    [
        ([], "n", "n", True),
        ([], "n", "s", False),
        (["n == s"], "2 * n", "n + s", True),
        (["n == s", "s == t + 1"], "n - 1", "t", True),
        (["n == 4"], "n * s", "4 * s", True),
        (["n * s == t * u"], "n * s", "t * u", True),
        (["n * s == t * u"], "n * s + 1", "t * u", False),
        (["n <= s"], "n", "s", False),
        (["2 * n == 2 * s"], "2 * n", "2 * s", True),
    ],
)
def test_proofs(constraints: list[str], a: str, b: str, expected: bool) -> None:
    known = Equality({}, [parse_constraint(c) for c in constraints])
    assert known.proved(parse_dim(a), parse_dim(b)) is expected


def test_a_symbol_with_one_value_is_that_value() -> None:
    assert Equality({"n": (3, 3)}).proved(symbol("n") * 2, 6)


def test_bounds_remove_functions() -> None:
    assert Equality({"n": (0, None)}).proved(parse_dim("max(n, 0)"), symbol("n"))


def test_solving_needs_a_symbol_alone() -> None:
    assert solve_for_symbol(parse_dim("n * s - 3")) is None
    assert solve_for_symbol(parse_dim("n + n * s")) is None
    assert solve_for_symbol(parse_dim("2 * s - n + 1")) == ("n", parse_dim("2 * s + 1"))
