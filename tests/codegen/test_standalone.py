"""Kernels that stand alone: drawn calls, symbolic sizes, threads, hostile orders and indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from cuvil.codegen.standalone import BUILDERS
from cuvil.errors import CuvilError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module, Value
from cuvil.ir.types import F32, I64, TensorType
from cuvil.ops.registry import registry
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import add, floordiv, mul, symbol
from tests.codegen.compile_graph import Array, batch, build, compare, outputs_of, run_compiled
from tests.ops.checks import assert_matches
from tests.ops.generators import cases
from tests.ops.values import Case, case

_STEP, _MOST, _LEAST = {"topk": 9, "resize": 13}, 40, 10


def close(got: Array, want: Array, what: str) -> None:
    """Equal for exact dtypes, some roundings apart for floats."""
    assert_matches(got, want, what, 8.0)


def sample(name: str, start: int = 0) -> list[Case]:
    """Some of the generated calls, spread over all kinds of them."""
    drawn = list(cases(name, np.random.default_rng(3)))
    step = min(_STEP.get(name, 4), max(1, len(drawn) // _LEAST))
    return drawn[start::step][:_MOST]


def test_every_kernel_op_has_a_builder() -> None:
    wanted = {d.name.removeprefix("cuvil.") for d in registry().values() if d.fusion == "kernel"}
    assert wanted == set(BUILDERS)


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_drawn_calls_agree_with_the_reference(name: str) -> None:
    drawn = sample(name)
    assert compare(batch(name, drawn), close, threads=2) >= min(_LEAST, len(drawn)) > 2


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_constant_parameters_are_packed_when_compiled(name: str) -> None:
    made = batch(name, [c for c in sample(name, 1) if len(c.arrays) > 3], constant=(1, 2, 3))
    assert made.cases
    compare(made, close)


def test_a_comparison_sees_a_wrong_result() -> None:
    def expect_twice(got: Array, want: Array, what: str) -> None:
        close(got, want * 2, what)

    with pytest.raises(AssertionError):
        compare(batch("cumsum", [case(np.ones(3, np.float32), axis=0)]), expect_twice)


Body = Callable[[Emitter, Value], "list[Value]"]
n, t, c = symbol("n"), symbol("t"), symbol("c")


def symbolic(shape: tuple[Any, ...], body: Body, low: int = 0) -> Module:
    """A module of one f32 input with symbolic dimensions n, t, c from ``low`` on."""
    emitter = Emitter(dict.fromkeys(("n", "t", "c"), (low, None)))
    found = body(emitter, emitter.input("x", TensorType(shape, F32)))
    return emitter.finish(found, [f"y{i}" for i in range(len(found))])


def check_sizes(module: Module, sizes: Sequence[tuple[int, ...]], rng: np.random.Generator) -> None:
    """One artifact, called at each size of its input."""
    with build(module, threads=2) as artifact:
        for shape in sizes:
            x = rng.standard_normal(shape).astype(np.float32)
            wanted = run_module(module, {"x": x})
            found = outputs_of(artifact, module, {"x": x})
            for k, (got, want) in enumerate(zip(found, wanted, strict=True)):
                close(got, want, f"{shape}, output {k}")


def _recurrent(name: str) -> Body:
    rng = np.random.default_rng(5)
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[name]

    def body(e: Emitter, x: Value) -> list[Value]:
        w, r = (
            e.weight((rng.standard_normal((2, gates * 19, k)) * 0.4).astype(np.float32))
            for k in (7, 19)
        )
        attrs = {"linear_before_reset": False} if name == "gru" else {}
        return e.results(name, x, w, r, hidden=19, direction="bidirectional", **attrs)

    return body


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_recurrent_layers_take_any_length_and_batch(name: str) -> None:
    module = symbolic((t, n, 7), _recurrent(name))
    sizes = [(5, 3, 7), (1, 1, 7), (0, 2, 7), (3, 0, 7), (40, 9, 7)]
    check_sizes(module, sizes, np.random.default_rng(0))


def test_sequences_of_length_zero_leave_zero_states() -> None:
    rng = np.random.default_rng(2)
    arrays = [
        rng.standard_normal(s).astype(np.float32) for s in ((4, 3, 5), (1, 24, 5), (1, 24, 6))
    ]
    states = [rng.standard_normal((1, 3, 6)).astype(np.float32) for _ in range(2)]
    lengths = np.array([0, 4, 2], np.int64)
    flags = dict.fromkeys(("has_h0", "has_c0", "has_seq_lens"), True)
    call = case(*arrays, *states, lengths, hidden=6, direction="reverse", **flags)
    made = batch("lstm", [call])
    compare(made, close)
    y, h, cell = run_compiled(made.module, made.inputs)
    assert not h[0, 0].any() and not cell[0, 0].any() and not y[:, 0, 0].any()
    assert h[0, 1].any()


_WINDOW = {"strides": (2, 1), "pads_lo": (1, 0), "pads_hi": (1, 1), "dilations": (1, 2)}


def test_pools_take_any_size() -> None:
    def body(e: Emitter, x: Value) -> list[Value]:
        attrs: dict[str, Any] = {"kernel": (3, 2), "ceil_mode": True, **_WINDOW}
        return [
            e.op("max_pool", x, **attrs),
            e.op("avg_pool", x, count_include_pad=True, **attrs),
            e.op("max_pool_indices", x, **attrs),
        ]

    module = symbolic((n, 5, t, c), body, low=3)
    check_sizes(module, [(3, 5, 7, 9), (4, 5, 3, 3), (3, 5, 4, 30)], np.random.default_rng(0))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_takes_any_size(mode: str) -> None:
    def body(e: Emitter, x: Value) -> list[Value]:
        up = (n, mul(t, 2), add(c, 3), 5)
        down = (n, floordiv(add(t, 1), 2), add(c, -1), 5)
        attrs: dict[str, Any] = {"mode": mode, "coordinate": "half_pixel", "nearest": "floor"}
        smooth = {} if mode == "nearest" else {"antialias": True}
        return [
            e.op("resize", x, sizes=up, **attrs),
            e.op("resize", x, sizes=down, **attrs, **smooth),
            e.op("resize", e.transpose(x, (0, 3, 1, 2)), sizes=(n, 5, mul(t, 3), c), **attrs),
        ]

    module = symbolic((n, t, c, 5), body, low=2)
    check_sizes(module, [(2, 3, 4, 5), (3, 8, 2, 5), (2, 17, 31, 5)], np.random.default_rng(0))


def test_orders_and_sums_take_any_size() -> None:
    def body(e: Emitter, x: Value) -> list[Value]:
        return [
            *e.results("topk", x, k=t, axis=1, largest=True, sorted=True),
            *e.results("topk", x, k=1, axis=1, largest=False, sorted=True),
            e.op("cumsum", x, axis=1, reverse=True),
            e.op("cumsum", x, axis=0, exclusive=True),
        ]

    module = symbolic((n, t, 3), body, low=1)
    check_sizes(module, [(2, 5, 3), (1, 1, 3), (7, 70, 3), (1, 900, 3)], np.random.default_rng(0))


def test_sorts_of_hostile_orders() -> None:
    size = 3000
    ramp = np.arange(size)
    rng = np.random.default_rng(8)
    orders = np.stack([
        ramp, ramp[::-1], ramp // 100, np.zeros(size), np.minimum(ramp, ramp[::-1]), ramp % 2,
        rng.permutation(size), np.where(ramp % 7 == 0, np.nan, -ramp), ramp * (-1.0) ** ramp,
    ])  # fmt: skip
    calls = [
        case(orders.astype(dtype), k=k, axis=1, largest=largest, sorted=True)
        for dtype in ("float32", "float64")
        for k in (1, 40, 374, 375, 376, 2999, size)
        for largest in (False, True)
    ]
    calls += [case(rng.integers(-5, 5, (2, size)), k=size, axis=1, largest=False, sorted=True)]
    assert compare(batch("topk", calls), close, threads=2) == 2 * len(calls)


def test_threads_change_no_result() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((64, 3000)).astype(np.float32)
    index = rng.integers(-3000, 3000, (64, 5000))
    updates = rng.standard_normal((64, 5000)).astype(np.float32)
    calls = {
        "cumsum": case(x, axis=1),
        "topk": case(x, k=7, axis=1, largest=True, sorted=True),
        "scatter_elements": case(x, index, updates, axis=1, reduction="add"),
        "scatter_nd": case(x, rng.integers(0, 64, (500, 1)), updates[:1, :3000].repeat(500, 0)),
    }
    for name, call in calls.items():
        made = batch(name, [call])
        alone, shared = (run_compiled(made.module, made.inputs, threads=k) for k in (1, 2))
        for one, two in zip(alone, shared, strict=True):
            np.testing.assert_array_equal(one, two)


def _scatter(name: str, index: tuple[int, ...], updates: tuple[int, ...]) -> Module:
    e = Emitter()
    data = e.input("data", TensorType((4, 5), F32))
    where = e.input("index", TensorType(index, I64))
    new = e.input("new", TensorType(updates, F32))
    attrs = {"axis": 1} if name == "scatter_elements" else {}
    return e.finish([e.op(name, data, where, new, **attrs)], ["y"])


@pytest.mark.parametrize("name", ["scatter_elements", "scatter_nd"])
@pytest.mark.parametrize("bad", [5, -6, 1 << 40])
def test_an_index_outside_fails_the_call(name: str, bad: int) -> None:
    shapes = {"scatter_elements": ((1, 2), (1, 2)), "scatter_nd": ((2, 2), (2,))}[name]
    module = _scatter(name, *shapes)
    inputs = {"data": np.zeros((4, 5), np.float32), "new": np.ones(shapes[1], np.float32)}
    index = np.zeros(shapes[0], np.int64)
    with build(module) as artifact:
        outputs_of(artifact, module, {**inputs, "index": index})
        index.reshape(-1)[1] = bad
        with pytest.raises(CuvilError, match="index"):
            outputs_of(artifact, module, {**inputs, "index": index})
