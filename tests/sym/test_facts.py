"""What is proved or simplified holds at every point, against Python's own integers."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from cuvil.sym.expr import (
    Dim,
    add,
    evaluate,
    floordiv,
    maximum,
    minimum,
    mod,
    mul,
    split_multiple,
    substitute,
    symbol,
    total,
)
from cuvil.sym.facts import Facts
from cuvil.sym.forms import unrounded
from cuvil.sym.known import KnownFacts
from cuvil.sym.largest import Largest
from cuvil.sym.parse import parse_constraint, parse_dim
from cuvil.sym.points import Point, points_within

BOUNDS: dict[str, tuple[int, int | None]] = {"a": (0, None), "b": (1, 9), "c": (3, None)}
LOOPS: dict[str, tuple[Dim, Dim | None]] = {"i": (0, symbol("b") - 1), "j": (0, symbol("i"))}
SIZES = [{"a": a, "b": b, "c": c} for a in (0, 1, 6, 23) for b in (1, 4, 9) for c in (3, 8, 31)]


def points() -> Iterator[dict[str, int]]:
    """Sizes within the bounds, with every value of the loops."""
    for sizes in SIZES:
        for i in range(sizes["b"]):
            for j in range(i + 1):
                yield {**sizes, "i": i, "j": j}


def random_dim(rng: random.Random, depth: int = 3) -> Dim:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([symbol(rng.choice("abcij")), rng.randint(-9, 9)])
    kind = rng.choice(["add", "sub", "mul", "div", "mod", "max", "min"])
    left = random_dim(rng, depth - 1)
    if kind in ("div", "mod"):
        by = rng.choice([rng.randint(1, 9), symbol("c"), symbol("b")])
        return floordiv(left, by) if kind == "div" else mod(left, by)
    right = random_dim(rng, depth - 1)
    if kind == "sub":
        return add(left, mul(right, -1))
    return {"add": add, "mul": mul, "max": maximum, "min": minimum}[kind](left, right)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_proved_and_simplified_holds(seed: int) -> None:
    rng = random.Random(seed)
    facts = Facts(BOUNDS).with_loops(LOOPS)
    every, proved = list(points()), 0
    for _ in range(60):
        value = random_dim(rng)
        simple = facts.simplify(value)
        assert all(evaluate(simple, p) == evaluate(value, p) for p in every), str(value)
        if facts.nonnegative(value):
            proved += 1
            assert all(evaluate(value, p) >= 0 for p in every), str(value)
    assert proved > 5


def test_a_proof_may_use_what_is_assumed() -> None:
    a, b = symbol("a"), symbol("b")
    assert Facts(BOUNDS, assumed=[add(a, -4)]).nonnegative(add(a, -3))
    assert Facts(BOUNDS, assumed=[add(a, mul(b, -1))]).nonnegative(add(mul(a, 2), mul(b, -1)))
    assert not Facts(BOUNDS, assumed=[add(a, -4)]).nonnegative(add(a, -5))


def test_points_are_within_the_bounds() -> None:
    found = points_within(BOUNDS, LOOPS)
    assert len(found) > 2
    for values in (point.values for point in found):
        for name, (low, high) in BOUNDS.items():
            assert low <= values[name] and (high is None or values[name] <= high)
        assert 0 <= values["j"] <= values["i"] < values["b"]
    assert not points_within({"b": (0, 0)}, {"i": (0, symbol("b") - 1)})


def test_no_value_where_a_divisor_is_not_positive() -> None:
    quotient = floordiv(symbol("a"), symbol("b"))
    assert Point({"a": 7, "b": 2}).at(quotient) == 3
    assert Point({"a": 7}).at(quotient) is None


@pytest.mark.parametrize("seed", range(4))
def test_sums_are_the_same_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    parts = [random_dim(rng, 2) for _ in range(6)]
    wanted = total(parts)
    for _ in range(5):
        rng.shuffle(parts)
        one_by_one: Dim = 0
        for part in parts:
            one_by_one = add(one_by_one, part)
        assert str(one_by_one) == str(total(parts)) == str(wanted)
        assert one_by_one == wanted and hash(one_by_one) == hash(wanted)


@pytest.mark.parametrize("seed", range(4))
def test_substitution_is_evaluation_in_two_steps(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        value = random_dim(rng)
        table: dict[str, Dim] = {"a": add(mul(symbol("b"), 2), 1), "i": symbol("j")}
        for p in ({"b": 2, "c": 5, "j": 0}, {"b": 9, "c": 4, "j": 3}):
            first = {**p, **{name: evaluate(v, p) for name, v in table.items()}}
            assert evaluate(substitute(value, table), p) == evaluate(value, first)


@pytest.mark.parametrize("seed", range(4))
def test_the_text_of_an_expression_has_its_value_in_python_too(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        value = random_dim(rng)
        for sizes in (SIZES[0], SIZES[-1]):
            p = {**sizes, "i": 5, "j": 2}
            known = {"__builtins__": {}, "max": max, "min": min, **p}
            assert evaluate(value, p) == eval(str(value), known)
    with pytest.raises(KeyError, match="no value for b in a \\+ b"):
        evaluate(parse_dim("a + b"), {"a": 1})


def test_a_quotient_alone_is_resolved() -> None:
    for times in (-3, -2, -1, 1, 2, 3):
        for number in range(-9, 10):
            for by in (2, 3, 5):
                value = add(mul(floordiv(add(symbol("a"), 1), by), times), number)
                found = unrounded(value)
                assert "//" not in str(found)
                for a in range(30):
                    before, after = evaluate(value, {"a": a}), evaluate(found, {"a": a})
                    assert (before >= 0) == (after >= 0), str(value)


@pytest.mark.parametrize("seed", range(2))
def test_division_with_facts_is_division_simplified(seed: int) -> None:
    rng = random.Random(seed)
    facts = Facts(BOUNDS).with_loops(LOOPS)
    for _ in range(60):
        value, by = random_dim(rng), rng.choice([4, symbol("c"), symbol("b")])
        assert facts.floordiv(value, by) == facts.simplify(floordiv(value, by))
        quotient, rest = split_multiple(value, by)
        for p in SIZES:
            p = {**p, "i": 0, "j": 0}
            wanted = evaluate(value, p) % evaluate(by, p)
            assert evaluate(facts.mod(value, by), p) == wanted
            assert evaluate(quotient, p) * evaluate(by, p) + evaluate(rest, p) == evaluate(value, p)


def test_facts_learn_constraints_one_by_one() -> None:
    known, symbols, a = KnownFacts(), {"a": (0, None)}, symbol("a")
    first = parse_constraint("a >= 3")
    assert not known.of(symbols, []).nonnegative(add(a, -3))
    assert known.of(symbols, [first]).nonnegative(add(a, -3))
    assert not known.of(symbols, [first]).nonnegative(add(a, -4))
    assert known.of(symbols, [parse_constraint("a // 4 >= 2")]).nonnegative(add(a, -8))
    assert not known.of(symbols, []).nonnegative(add(a, -3))
    assert known.of({"a": (5, None)}, []).nonnegative(add(a, -3))


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_of_several_is_their_maximum(seed: int) -> None:
    rng = random.Random(seed)
    values = [random_dim(rng, 2) for _ in range(7)]
    largest, every = Largest(Facts(BOUNDS), values[0]), [{**p, "i": 1, "j": 0} for p in SIZES]
    for value in values[1:]:
        largest.add(value)
    for p in every:
        assert evaluate(largest.value, p) == max(evaluate(value, p) for value in values)


def test_the_largest_keeps_no_value_that_another_one_reaches() -> None:
    texts = ("4 * a", "2 * a", "b", "4 * a + 1", "3 * a", "2 * a")
    largest = Largest(Facts(BOUNDS))
    for text in texts:
        largest.add(parse_dim(text))
    assert str(largest.value) == "max(4 * a + 1, b)"
