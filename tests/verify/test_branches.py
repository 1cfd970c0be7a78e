"""Inputs that lead into every branch are found, and what can't be reached is named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cuvil.api.manifest import signature_of
from cuvil.frontends.emitter import Emitter
from cuvil.ir.control import FOR, STEP
from cuvil.ir.core import Module, Value
from cuvil.ir.types import BOOL, F32, I64, TensorType
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol
from cuvil.verify.branches import Reached, reach_branches
from cuvil.verify.inputs import make_inputs, spread_of_sizes
from cuvil.verify.ranges import integer_limits

N = symbol("n")


def choice(
    e: Emitter, flag: Value, then: Callable[[], Value], other: Callable[[], Value]
) -> Value:
    regions = []
    for body in (then, other):
        with e.region() as region:
            value = body()
            e.close([value])
        regions.append(region)
    return e.branch(flag, regions, [value.type])[0]


def _reach(module: Module) -> Reached:
    signature = signature_of(module.main)
    rng = np.random.default_rng(0)
    limits = integer_limits(module)
    trials = [
        make_inputs(signature, sizes, {}, rng, limits) for sizes in spread_of_sizes(signature, {})
    ]
    return reach_branches(module, signature, {}, limits, trials)


def test_constants_sizes_and_nested_conditions_are_met() -> None:
    """if rate == 16000: (if flag: n must be 7) else: sum(x) > 10 decides."""
    e = Emitter({"n": (1, None)})
    x = e.input("x", TensorType((N,), F32))
    rate, flag = e.input("rate", TensorType((), I64)), e.input("flag", TensorType((), BOOL))

    def seven() -> Value:
        e.context.require(N, "==", 7, "seven of them")
        return e.op("exp", e.reshape(x, (7,)))

    def inner() -> Value:
        return choice(e, flag, lambda: e.reshape(seven(), (N,)), lambda: e.op("neg", x))

    def large() -> Value:
        total = e.op("reduce_sum", x, axes=(0,), keepdims=False)
        big = e.with_scalar("gt", total, 10.0)
        return choice(e, big, lambda: e.op("abs", x), lambda: e.op("neg", x))

    right = e.with_scalar("eq", rate, 16000)
    module = e.finish([choice(e, right, inner, large)], ["y"])
    found = _reach(module)
    assert found.missed == []
    values = {int(t["rate"]) == 16000 for t in found.trials}
    assert True in values
    for trial in found.trials:
        run_module(module, trial)


def test_what_nothing_reaches_is_named() -> None:
    e = Emitter({"n": (1, None)})
    x = e.input("x", TensorType((N,), F32))
    squares = e.op("reduce_sum", e.op("mul", x, x), axes=(0,), keepdims=False)
    never = e.with_scalar("lt", squares, -1.0)
    y = choice(e, never, lambda: e.op("exp", x), lambda: e.op("neg", x))
    found = _reach(e.finish([y], ["y"]))
    assert len(found.missed) == 1 and "then branch" in found.missed[0]


def test_a_limit_is_seen_through_a_region() -> None:
    """An index that is looked up in a loop's body stays below the size of what it looks into."""
    e = Emitter({"n": (1, None)})
    index = e.input("index", TensorType((N,), I64))
    table = e.weight(np.arange(30, dtype=np.float32).reshape(10, 3), "table")
    with e.region([STEP]) as region:
        at = e.op("gather", index, region.own[0], axis=0)
        e.close([e.op("gather", table, at, axis=0)])
    (rows,) = e.loop(FOR, [], [], region, [TensorType((N, 3), F32)], trips=N)
    module = e.finish([rows], ["rows"])
    assert integer_limits(module) == {}  # what is looked up is computed from it
    e = Emitter()
    index, flag = e.input("index", TensorType((), I64)), e.input("flag", TensorType((), BOOL))
    y = choice(
        e, flag, lambda: e.op("gather", e.weight(np.arange(5.0, dtype=np.float32)), index, axis=0),
        lambda: e.scalar(0.0, F32),
    )  # fmt: skip
    assert integer_limits(e.finish([y], ["y"])) == {"index": 5}
