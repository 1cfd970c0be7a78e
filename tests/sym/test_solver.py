"""Satisfiability, implication and minimal contradictions, with z3 and without."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuvil.errors import InputError, ShapeConstraintError
from cuvil.sym.constraint import Constraint
from cuvil.sym.linear import decide
from cuvil.sym.parse import asked_constraint, parse_constraint, parse_dim
from cuvil.sym.solver import bounds, conflict, implied, require_satisfiable, satisfiable

Bounds = dict[str, tuple[int, "int | None"]]


def _constraints(*texts: str) -> list[Constraint]:
    return [parse_constraint(t, f"user {i}") for i, t in enumerate(texts)]


_LINEAR: list[tuple[list[str], Bounds, bool]] = [
    ([], {"n": (1, 8)}, True),
    (["n >= 9"], {"n": (1, 8)}, False),
    (["n % 8 == 0", "n >= 3"], {"n": (1, 8)}, True),
    (["n % 8 == 0", "n >= 3", "n <= 7"], {"n": (1, 8)}, False),
    (["n == s", "s >= 5", "n <= 4"], {}, False),
    (["n >= s + 1", "s >= n + 1"], {}, False),
    (["n * s <= 4", "n >= 3", "s >= 2"], {}, False),
    (["n * s <= 16384"], {"n": (1, 64), "s": (1, 512)}, True),
    (["2 * n == 2 * s + 1", "n <= 9", "s <= 9"], {}, False),
    (["n != 3"], {"n": (3, 3)}, False),
    (["max(n, 4) <= 3"], {}, False),
    (["n < 0"], {}, False),
    (["4 == 5"], {}, False),
    (["100 // n == 3"], {"n": (0, 60)}, True),
]


@pytest.mark.parametrize(("texts", "symbols", "expected"), _LINEAR)
@pytest.mark.parametrize("with_z3", [False, True])
def test_satisfiable(
    texts: list[str],
    symbols: Bounds,
    expected: bool,
    with_z3: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not with_z3:
        monkeypatch.setitem(sys.modules, "z3", None)
    assert satisfiable(_constraints(*texts), symbols) is expected


def test_z3_decides_what_the_linear_path_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = _constraints("2 * n == 2 * s + 1")
    assert decide(hard, {}) is None
    assert satisfiable(hard, {}) is False
    monkeypatch.setitem(sys.modules, "z3", None)
    assert satisfiable(hard, {}) is None
    assert conflict(hard, {}) == []


def test_z3_stops_in_time() -> None:
    """Fermat's last theorem for cubes, which no solver settles."""
    cubes = _constraints("a * a * a + b * b * b == c * c * c", "a >= 1", "b >= 1")
    start = time.perf_counter()
    assert satisfiable(cubes, {}, milliseconds=100) is None
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("text", "given_", "symbols", "expected"),
    [
        ("n >= 0", [], {}, True),
        ("n >= 1", [], {}, False),
        ("n <= 8", ["n == s"], {"s": (1, 8)}, True),
        ("n * s <= 32", ["n <= 4"], {"s": (1, 8)}, True),
        ("n % 2 == 0", ["n % 8 == 0"], {}, True),
        ("n % 8 == 0", ["n % 2 == 0"], {}, False),
        ("3 == 3", [], {}, True),
    ],
)
def test_implied(text: str, given_: list[str], symbols: Bounds, expected: bool) -> None:
    assert implied(parse_constraint(text), _constraints(*given_), symbols) is expected


def test_a_contradiction_is_minimal_and_names_its_origins() -> None:
    items = _constraints("t <= 100", "n >= 6", "n <= s", "s + t >= 3", "s <= 5", "t >= 2")
    symbols: Bounds = {"n": (1, 64), "s": (1, 512), "t": (0, None)}
    assert [str(c) for c in conflict(items, symbols)] == ["n >= 6", "n <= s", "s <= 5"]
    with pytest.raises(ShapeConstraintError) as caught:
        require_satisfiable(items, symbols)
    assert "n >= 6 (from user 1)" in str(caught.value)
    assert "t" not in {str(s) for c in conflict(items, symbols) for s in c.symbols()}


def test_bounds_take_part_in_a_contradiction() -> None:
    found = conflict(_constraints("n >= 9", "s >= 1"), {"n": (1, 8), "s": (1, 8)})
    assert [(str(c), c.origin) for c in found] == [
        ("n >= 9", "user 0"), ("n <= 8", "the bounds of n"),
    ]  # fmt: skip


def test_z3_contradictions_are_minimal_too() -> None:
    items = _constraints("t >= 1", "2 * n == 2 * s + 1", "n >= 2", "s >= 1")
    assert [str(c) for c in conflict(items, {})] == ["2 * n == 2 * s + 1"]


def test_no_contradiction_raises_nothing() -> None:
    require_satisfiable(_constraints("n <= s"), {"n": (1, 8), "s": (1, 8)})


@pytest.mark.parametrize(
    ("text", "given_", "expected"),
    [
        ("n", [], (1, 8)),
        ("2 * n + 1", [], (3, 17)),
        ("n", ["n >= s", "s >= 5"], (5, 8)),
        ("n - s", [], (-7, 7)),
        ("n + t", [], (1, None)),
    ],
)
def test_bounds(text: str, given_: list[str], expected: tuple[int, int | None]) -> None:
    symbols: Bounds = {"n": (1, 8), "s": (1, 8), "t": (0, None)}
    assert bounds(parse_dim(text), _constraints(*given_), symbols) == expected


def test_bounds_of_a_contradiction_are_refused() -> None:
    with pytest.raises(ShapeConstraintError, match="no sizes satisfy"):
        bounds(parse_dim("n"), _constraints("n >= 9"), {"n": (1, 8)})


def test_bounds_that_square_in_every_round_come_to_an_end() -> None:
    items = _constraints("n * s < 2 * n", "2 * n > n + s", "s > n // 2")
    assert decide(items, {"n": (0, None), "s": (1, None)}) is False


_SIDE = st.sampled_from(["n", "s", "2 * n", "n + s", "n * s", "n // 2", "s % 3", "3", "5", "0"])
_RELATION = st.sampled_from(["==", "!=", "<=", "<", ">=", ">"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_SIDE, _RELATION, _SIDE), min_size=1, max_size=4))
def test_the_linear_path_agrees_with_enumeration(parts: list[tuple[str, str, str]]) -> None:
    items = _constraints(*(" ".join(p) for p in parts))
    symbols: Bounds = {"n": (0, 7), "s": (1, 6)}
    truth = any(
        all(c.holds({"n": n, "s": s}) for c in items) for n in range(8) for s in range(1, 7)
    )
    assert decide(items, symbols) is truth
    answer = decide(items, {"n": (0, None), "s": (1, None)})
    assert answer is not False if truth else True


@pytest.mark.parametrize(
    ("texts", "symbols", "divisor"),
    [
        (["n % (n - 4) == 0"], {"n": (1, None)}, "n - 4"),
        (["n // (n - 4) >= 0", "n != 5"], {"n": (0, 50)}, "n - 4"),
        (["max(1, n % m) == 1"], {"n": (0, None), "m": (0, None)}, "m"),
    ],
)
def test_a_divisor_that_may_be_0_is_refused(
    texts: list[str], symbols: Bounds, divisor: str
) -> None:
    asked = [asked_constraint(text) for text in texts]
    with pytest.raises(InputError, match=f"divides by {divisor}, which may be 0"):
        require_satisfiable(asked, symbols)


@pytest.mark.parametrize(
    ("texts", "symbols"),
    [
        (["n % (n - 4) == 0"], {"n": (5, None)}),
        (["n % (n - 4) == 0", "n > 4"], {"n": (0, None)}),
        (["n % (n + 1) == n", "n % 8 == 0"], {"n": (0, None)}),
        (["n % m == 0"], {"n": (0, None), "m": (1, 9)}),
    ],
)
def test_divisors_that_are_positive_are_taken(texts: list[str], symbols: Bounds) -> None:
    require_satisfiable([asked_constraint(text) for text in texts], symbols)


def test_what_divides_by_0_does_not_hold() -> None:
    assert not parse_constraint("n // (n - 4) >= 0").holds({"n": 4})
    assert parse_constraint("n // (n - 4) >= 0").holds({"n": 5})


@pytest.mark.parametrize(
    "text", [f"n <= {2**63}", f"n >= -{10**20}", f"n * {2**62} * 4 > 0", f"n % max(n, {2**70}) > 0"]
)
def test_numbers_beyond_64_bits_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="beyond 64 bits"):
        asked_constraint(text)


def test_the_largest_number_of_64_bits_is_taken() -> None:
    assert asked_constraint(f"n <= {2**63 - 1}").right == 2**63 - 1
