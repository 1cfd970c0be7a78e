"""Constraints on one symbol in plain words hold at the very sizes at which the others do."""

from __future__ import annotations

import random

import pytest

from cuvil.sym.parse import parse_constraint
from cuvil.sym.plain import plain

WORDS = {
    "((w + 3) // 4) - 1 >= 3": "w >= 13",
    "((((h - 7) // 2 + 1) - 3) // 2 + 1) - 1 >= 0": "h >= 11",
    "n - ((n + 1) // 2) >= 0": "",
    "n // 2 == (n + 1) // 2": "n % 2 == 0",
    "n - min(1, n) == n - 1": "n >= 1",
    "6 * n == 12 * (n // 2)": "n % 2 == 0",
    "(4 * n) % 3 == 0": "n % 3 == 0",
    "4 * max(1, n // 4) != 4": "n >= 8",
    "n // 2 == 4": "n >= 8; n <= 9",
    "n % 3 <= 0": "n % 3 == 0",
    "n % 4 + 3 >= 4": "n % 4 != 0",
    "(n + 3) % 4 == 0": "n % 4 == 1",
    "((n - 1) // ((n + 2) // 3)) + 1 == 3": "n >= 3; n != 4",
    "((n - 1) // (n // 2)) + 1 == 2": "n >= 2; n % 2 == 0",
    "(3 * n + 3 * ((-(n % 4)) % 4)) % 12 == 0": "",
    "6 * h * w == 24 * (h // 2) * (w // 2)": "w * (h % 2) == 0; h * (w % 2) == 0",
    "3 * b * n == 12 * b * (n // 4)": "b * (n % 4) == 0",
    "2 * m + 2 * n == 4 * ((m + n) // 2)": "(m + n) % 2 == 0",
    "h * w + w * ((-(h % 4)) % 4) == 4 * w * ((h + ((-(h % 4)) % 4)) // 4)": "",
}


@pytest.mark.parametrize("text", WORDS)
def test_words(text: str) -> None:
    found = plain(parse_constraint(text))
    assert found is not None
    assert "; ".join(map(str, found)) == WORDS[text]


@pytest.mark.parametrize(
    "text", ["n >= 3", "n != 4", "n * n >= 9", "3 * n == 100", "n == 4 * m", "n % (n // 2) == 0"]
)
def test_what_has_no_plainer_words(text: str) -> None:
    assert plain(parse_constraint(text)) is None


def test_the_bounds_of_the_symbol_count() -> None:
    rule = parse_constraint("(n // 2) % 3 == 0")
    assert plain(rule) is None
    assert [str(c) for c in plain(rule, {"n": (6, 10)}) or ()] == ["n <= 7"]
    assert plain(rule, {"n": (6, 7)}) == ()


def test_products() -> None:
    rule = parse_constraint("6 * h * w == 48 * (h // 2) * (w // 4)")
    words = plain(rule) or ()
    for h in range(9):
        for w in range(9):
            table = {"h": h, "w": w}
            assert rule.holds(table) == all(c.holds(table) for c in words)
    found = plain(rule, {"h": (1, None), "w": (1, None)}) or ()
    assert [str(c) for c in found] == ["h % 2 == 0", "w % 4 == 0"]
    assert plain(parse_constraint("6 * h * w == 24 * (h // 2) * (w // 4)")) is None


def test_the_origin_stays() -> None:
    (rule,) = plain(parse_constraint("2 * n >= 5", "somewhere")) or ()
    assert str(rule) == "n >= 3" and rule.origin == "somewhere"


def _value(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.2:
        return rng.choice(["n", "n", "n", str(rng.randint(0, 9))])
    a, b = _value(rng, depth - 1), _value(rng, depth - 1)
    if kind < 0.6:
        return f"({a} {rng.choice('+-')} {b})" if kind < 0.5 else f"({rng.randint(1, 4)} * {a})"
    if kind < 0.8:
        return f"({a} {rng.choice(['//', '%'])} {rng.randint(1, 6)})"
    if kind < 0.86:
        return f"({a} {rng.choice(['//', '%'])} (n // {rng.randint(1, 3)} + {rng.randint(0, 2)}))"
    return f"{rng.choice(['max', 'min'])}({a}, {b})"


@pytest.mark.parametrize("seed", range(4))
def test_equivalence(seed: int) -> None:
    rng = random.Random(seed)
    found = 0
    far = [*range(120), 1000, 1001, 1003, 9973, 10**6, 10**6 + 7]
    for _ in range(150):
        relation = rng.choice(["==", "!=", "<=", "<", ">=", ">"])
        try:
            rule = parse_constraint(f"{_value(rng, 3)} {relation} {_value(rng, 2)}")
        except ZeroDivisionError:
            continue
        low, high = rng.choice([0, 0, 1, 4]), rng.choice([None, None, 7, 40])
        words = plain(rule, {"n": (low, high)})
        if words is None:
            continue
        found += 1
        for n in (s for s in far if s >= low and (high is None or s <= high)):
            table = {"n": n}
            assert rule.holds(table) == all(c.holds(table) for c in words), (str(rule), n)
    assert found > 50
