"""Loops that end by constants alone are counted, and written out within the budget."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module
from cuvil.ir.control import FOR, STEP, WHILE
from cuvil.ir.core import Module
from cuvil.ir.types import F32, I64, TensorType
from cuvil.passes.control import UNROLLED_OPS
from cuvil.passes.pipeline import lower
from cuvil.passes.trip_count import MOST_TRIPS
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol

X = TensorType((symbol("n"),), F32)


def _until(end: int, limit: int, *, from_input: bool = False) -> Module:
    """k = 0; while k < end (at most limit times): k += 2, y = sin(y)."""
    e = Emitter({"n": (1, None)})
    x = e.input("x", X)
    k = e.input("k", STEP) if from_input else e.scalar(0, I64)
    with e.region([STEP, STEP, X]) as region:
        _, at, y = region.own
        more = e.with_scalar("add", at, 2)
        e.close([e.with_scalar("lt", more, end), more, e.op("sin", y)])
    lead = [e.scalar(limit, I64), e.with_scalar("lt", k, end)]
    _, y = e.loop(WHILE, lead, [k, x], region, [STEP, X])
    return e.finish([y], ["y"])


def _names(module: Module) -> list[str]:
    return [op.name for op in module.main.walk()]


@pytest.mark.parametrize(("end", "limit", "trips"), [(7, 50, 4), (8, 50, 4), (1, 50, 1), (9, 3, 3)])
def test_a_counter_of_constants_is_counted(end: int, limit: int, trips: int) -> None:
    module = _until(end, limit)
    lowered = lower(clone_module(module), "canonical")
    assert _names(lowered).count("cuvil.sin") == trips
    assert not {FOR, WHILE} & set(_names(lowered))
    x = {"x": np.linspace(-2, 2, 5, dtype=np.float32)}
    expected = x["x"]
    for _ in range(trips):
        expected = np.sin(expected)
    np.testing.assert_allclose(run_module(lowered, x)[0], expected, rtol=1e-6)


def test_a_counter_that_is_data_stays_a_while() -> None:
    assert WHILE in _names(lower(_until(7, 50, from_input=True), "canonical"))


def test_many_trips_stay_a_loop_that_is_counted() -> None:
    lowered = lower(_until(300, 1 << 40), "canonical")
    (loop,) = [op for op in lowered.main.walk() if op.name in (FOR, WHILE)]
    assert loop.name == FOR and loop.attrs["trips"] == 150
    assert WHILE in _names(lower(_until(2 * MOST_TRIPS + 2, 1 << 40), "canonical"))


def _steps(trips: int, body: int) -> Module:
    e = Emitter({"n": (1, None)})
    x = e.input("x", X)
    with e.region([STEP, X]) as region:
        y = region.own[1]
        for _ in range(body - 1):
            y = e.op("sin", y)
        e.close([y])
    return e.finish(e.loop(FOR, [], [x], region, [X], trips=trips), ["y"])


@pytest.mark.parametrize(
    ("trips", "body", "written_out"),
    [(16, 4, True), (17, 4, False), (1, 200, True), (0, 200, True), (2, 33, False)],
)
def test_the_budget_of_operators(trips: int, body: int, written_out: bool) -> None:
    """All trips together, the region's yield included, come to at most 64 operators."""
    assert UNROLLED_OPS == 64
    names = _names(lower(_steps(trips, body), "canonical"))
    assert (FOR not in names) is written_out
    assert names.count("cuvil.sin") == (body - 1) * (trips if written_out else 1)
