"""Paths: which way branches and loops go is counted in the reference and in the artifact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cuvil.api.path_check import check_paths
from cuvil.api.source import Source
from cuvil.frontends.emitter import Emitter
from cuvil.ir.control import FOR, STEP, WHILE
from cuvil.ir.core import Module
from cuvil.ir.types import BOOL, F32, I64, TensorType
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol
from cuvil.verify.path_report import PathReport
from cuvil.verify.paths import counted
from tests.codegen.compile_graph import build
from tests.verify.test_branches import choice

N = symbol("n")


def _loops() -> Module:
    """for n trips: if step is even: y *= 1.5, else y += 1; then while count > 0 (at most 9 times):
    count -= 1, y /= 3."""
    e = Emitter({"n": (0, None)})
    x = e.input("x", TensorType((N, 2), F32))
    count = e.input("count", TensorType((), I64))
    y = e.op("reduce_sum", x, axes=(0,), keepdims=False)
    with e.region([STEP, y.type]) as region:
        step, carried = region.own
        even = e.with_scalar("eq", e.with_scalar("mod", step, 2), 0)
        e.close(
            [
                choice(
                    e, even, lambda: e.with_scalar("mul", carried, 1.5),
                    lambda: e.with_scalar("add", carried, 1.0),
                )
            ]
        )  # fmt: skip
    (y,) = e.loop(FOR, [], [y], region, [y.type], trips=N)
    with e.region([STEP, count.type, y.type]) as region:
        _, left, carried = region.own
        less = e.with_scalar("sub", left, 1)
        e.close([e.with_scalar("gt", less, 0), less, e.with_scalar("div", carried, 3.0)])
    lead = [e.scalar(9, I64), e.with_scalar("gt", count, 0)]
    _, y = e.loop(WHILE, lead, [count, y], region, [count.type, y.type])
    return e.finish([y], ["y"])


def _check(module: Module, build_with: Callable[[Module], Any] = build) -> PathReport:
    source = Source(
        module, lambda x: run_module(module, x), {}, lower=lambda m: m, build=build_with
    )
    trial = {"x": np.ones((3, 2), np.float32), "count": np.asarray(5)}
    return check_paths(build(module), source, [trial], search=True)


def test_the_counting_copy_counts() -> None:
    """5 trips: 3 even ones, 2 odd ones; the while runs 4 times; y as computed by hand."""
    copy = counted(_loops())
    inputs = {"x": np.ones((5, 2), np.float32), "count": np.asarray(4)}
    found = dict(zip(copy.module.main.output_names, run_module(copy.module, inputs)))
    outer, inner, last = copy.sites
    assert [int(found[inner.ways[way]]) for way in ("then", "else")] == [3, 2]
    trips = ("no trip", "one trip", "many trips")
    assert [int(found[outer.ways[way]]) for way in trips] == [0, 0, 1]
    assert [int(found[last.ways[way]]) for way in trips] == [0, 0, 1]
    y = ((5.0 * 1.5 + 1) * 1.5 + 1) * 1.5
    np.testing.assert_allclose(found[outer.states[0]], [y, y], rtol=1e-6)
    np.testing.assert_allclose(found["y"], [y / 81, y / 81], rtol=1e-6)
    assert int(found[last.states[0]]) == 0


def test_every_way_is_found_and_reproduced() -> None:
    found = _check(_loops())
    assert len(found.sites) == 3 and [len(s.ways) for s in found.sites] == [3, 2, 3]
    assert found.missed == [] and found.coverage == found.fidelity == 1.0
    assert found.passed and found.divergence < 1e-6
    assert "100% of the ways" in str(found)


class _Astray:
    """An artifact that takes one branch once more than it should, and carries other numbers."""

    def __init__(self, module: Module) -> None:
        self.artifact = build(module)

    def run(self, inputs: Any) -> dict[str, Any]:
        found = dict(self.artifact.run(inputs))
        found["count.1.then"] = np.asarray(found["count.1.then"]) + 1
        found["state.0.0"] = np.asarray(found["state.0.0"]) * 1.25
        return found


def test_other_ways_are_seen() -> None:
    found = _check(_loops(), _Astray)
    assert not found.passed and found.fidelity == 1 - 1 / 8
    assert found.sites[1].different == ["then"]
    assert found.divergence == pytest.approx(0.25, rel=1e-3)
    assert "then in another number" in str(found) and not found.as_dict()["passed"]


def test_what_can_not_be_is_not_asked_for() -> None:
    """A loop of 3 trips always makes many; what depends on a square is never below zero."""
    e = Emitter({"n": (1, None)})
    x = e.input("x", TensorType((N,), F32))
    with e.region([STEP, x.type]) as region:
        e.close([e.op("exp", region.own[1])])
    (y,) = e.loop(FOR, [], [x], region, [x.type], trips=3)
    square = e.op("reduce_sum", e.op("mul", x, x), axes=(0,), keepdims=False)
    z = choice(e, e.with_scalar("lt", square, -1.0), lambda: e.op("exp", y), lambda: e.op("neg", y))
    module = e.finish([z], ["z"])
    source = Source(module, lambda x: run_module(module, x), {}, lambda m: m, build)
    found = check_paths(build(module), source, [{"x": np.full(4, -2, np.float32)}], search=False)
    assert found.sites[0].ways == {"many trips": 1}
    assert found.sites[1].ways == {"then": 0, "else": 1}
    assert len(found.missed) == 1 and found.coverage == 2 / 3 and found.fidelity == 1


def test_a_model_without_control_flow_has_no_paths() -> None:
    e = Emitter()
    x = e.input("x", TensorType((2,), F32))
    module = e.finish([e.op("exp", x)], ["y"])
    source = Source(module, lambda x: run_module(module, x), {}, lambda m: m, build)
    found = check_paths(build(module), source, [{"x": np.zeros(2, np.float32)}], search=True)
    assert found == replace(found, sites=()) and found.fidelity == 1.0
    assert str(found) == "paths: no branches or loops"


def test_conditions_of_type_bool_are_counted() -> None:
    """The branch's own condition is an input."""
    e = Emitter()
    x, flag = e.input("x", TensorType((2,), F32)), e.input("flag", TensorType((), BOOL))
    module = e.finish([choice(e, flag, lambda: e.op("exp", x), lambda: e.op("neg", x))], ["y"])
    source = Source(module, lambda x: run_module(module, x), {}, lambda m: m, build)
    trial = {"x": np.ones(2, np.float32), "flag": np.asarray(True)}
    found = check_paths(build(module), source, [trial], search=True)
    assert found.sites[0].ways == {"then": 1, "else": 1} and found.passed
