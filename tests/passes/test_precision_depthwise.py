"""Depthwise convolutions on a bf16 input: what the pass writes, refuses, and what is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuvil.analysis.contraction_views import is_pair_depthwise
from cuvil.analysis.wellformed import check_graph
from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module, Value
from cuvil.ir.printer import print_module
from cuvil.ir.types import BF16, F32, F64, DType, TensorType
from cuvil.passes import precision
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.driver import apply_rules
from cuvil.rewrite.rewriter import Rewriter, Trace
from cuvil.sym.expr import symbol
from tests.codegen.compile_graph import run_compiled
from tests.passes.test_precision import numbers, rounded

CONV: dict[str, Any] = {
    "strides": (1, 1), "dilations": (1, 1), "pads_lo": (1, 1), "pads_hi": (1, 1),
    "has_bias": False, "channels_last": True,
}  # fmt: skip
OPTIONS = PassOptions(precision="bf16")


def depthwise(e: Emitter, x: Value, k: int = 3, dtype: DType = F32, **attrs: Any) -> Value:
    channels = x.type.shape[-1]
    assert isinstance(channels, int)
    w = e.weight(numbers(channels, 1, k, k, seed=k).astype(dtype.numpy))
    return e.op("conv", x, w, **{**CONV, "groups": channels, **attrs})


def module(channels: int = 32, dtype: DType = F32, given: bool = False, **attrs: Any) -> Module:
    """A depthwise convolution of absolute values, or of what is given."""
    e = Emitter({"n": (0, None)})
    x = e.input("x", TensorType((symbol("n"), 6, 9, channels), dtype))
    made = depthwise(e, x if given else e.op("abs", x), dtype=dtype, **attrs)
    return e.finish([e.op("sign", made)], ["y"])


def test_the_input_is_rounded_and_the_weights_are_not() -> None:
    e = Emitter()
    x = e.op("abs", e.input("x", TensorType((1, 6, 9, 32), F32)))
    made = e.finish([depthwise(e, x)], ["y"])
    before = [line.split(" loc(")[0].strip() for line in print_module(made).splitlines()]
    apply_rules(Rewriter(made.main), precision.DEPTHWISE_RULES)
    check_graph(made)
    after = [line.split(" loc(")[0].strip() for line in print_module(made).splitlines()]
    gone, come = (
        [line.split(" : (")[0] for line in a if line not in b]
        for a, b in ((before, after), (after, before))
    )
    rest = (
        "dilations = array<i64: 1, 1>, groups = 32 : i64, has_bias = false, {}"
        "pads_hi = array<i64: 1, 1>, pads_lo = array<i64: 1, 1>, strides = array<i64: 1, 1>}}"
    )
    head = '"cuvil.conv"(%{}) {{channels_last = true, '
    assert [line.split(" = ", 1)[1] for line in gone if "conv" in line] == [
        head.format("0, %1") + rest.format("")
    ]
    assert [line.split(" = ", 1)[1] for line in come if "=" in line] == [
        '"cuvil.cast"(%0) {dtype = #cuvil.dtype<bf16>}',
        head.format("2, %1") + rest.format("out = #cuvil.dtype<f32>, "),
    ]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: module(dtype=F64), "it is not in f32"),
        (lambda: module(groups=1, k=3), "it has more than one channel for each filter"),
        (lambda: module(k=7), "its window is not 3x3 or 5x5"),
        (lambda: module(strides=(1, 3)), "its strides are not 1 or 2"),
        (lambda: module(dilations=(2, 2)), "its strides are not 1 or 2, or it has dilations"),
        (lambda: module(30), "its channels are odd in number, or fewer than 32"),
        (lambda: module(35), "its channels are odd in number, or fewer than 32"),
        (lambda: module(given=True), "its input is given, so that rounding it takes a pass"),
    ],
)
def test_refusals(made: Any, reason: str) -> None:
    trace = Trace(detailed=True)
    if reason.startswith("it has more"):
        e = Emitter()
        x = e.op("abs", e.input("x", TensorType((1, 6, 9, 4), F32)))
        found = e.finish([e.op("conv", x, e.weight(numbers(6, 4, 3, 3)), **CONV, groups=1)], ["y"])
    else:
        found = made()
    apply_rules(Rewriter(found.main, trace=trace), precision.DEPTHWISE_RULES)
    check_graph(found)
    assert any(reason in text for text in trace.refused["bf16-depthwise"])
    assert not trace.fired


@pytest.mark.parametrize("follows", ["", "bias", "bias clamp", "bias silu", "bias hardswish"])
@pytest.mark.parametrize(("channels", "k", "stride"), [(32, 3, 1), (42, 3, 2), (150, 5, 2)])
def test_compiled_as_the_reference_has_it(
    channels: int, k: int, stride: int, follows: str
) -> None:
    e = Emitter({"n": (0, None)})
    x = e.op("abs", e.input("x", TensorType((symbol("n"), 7, 18, channels), F32)))
    pads = {"pads_lo": (k // 2,) * 2, "pads_hi": (k // 2,) * 2, "strides": (stride, stride)}
    y = depthwise(e, x, k, **pads)
    if "bias" in follows:
        y = e.op("add", y, e.broadcast(e.weight(numbers(channels)), y.type.shape))
    if "clamp" in follows:
        y = e.with_scalar("min", e.with_scalar("max", y, 0.0), 2.0)
    if "silu" in follows:
        y = e.op("silu", y)
    if "hardswish" in follows:
        gate = e.with_scalar("min", e.with_scalar("max", e.with_scalar("add", y, 3.0), 0.0), 6.0)
        y = e.with_scalar("div", e.op("mul", y, gate), 6.0)
    project = e.weight(numbers(8, channels, 1, 1))
    plain = {"pads_lo": (0, 0), "pads_hi": (0, 0)}
    z = e.op("conv", y, project, **{**CONV, **plain, "groups": 1})
    made = e.finish([z, y], ["z", "y"])
    low = lower(clone_module(made), "fused", OPTIONS)
    assert sum(op.short == "conv" and is_pair_depthwise(op) for op in low.main.walk()) == 1
    for n in (0, 1, 3):
        inputs = {"x": numbers(n, 7, 18, channels)}
        wants, found = run_module(low, inputs), run_compiled(made, inputs, OPTIONS)
        for got, want in zip(found, wants, strict=True):
            scale = np.abs(want).max(initial=1)
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-2 * scale)
        scale = np.abs(wants[1]).max(initial=1)
        np.testing.assert_allclose(found[1], wants[1], rtol=0, atol=2.0**-18 * scale)


def test_whole_numbers_are_exact() -> None:
    """An input that bf16 can't hold is rounded, weights of 20 bits are not."""
    e = Emitter()
    x = e.op("abs", e.input("x", TensorType((1, 5, 8, 32), F32)))
    w = np.zeros((32, 1, 3, 3), np.float32)
    w[:, 0, 1, 1] = 1 + 2.0**-12
    made = e.finish([e.op("conv", x, e.weight(w), **CONV, groups=32)], ["y"])
    given = np.arange(1280, dtype=np.float32).reshape(1, 5, 8, 32)
    (got,) = run_compiled(made, {"x": given}, OPTIONS)
    np.testing.assert_array_equal(got, rounded(given) * (1 + 2.0**-12))


def test_one_more_reader_of_the_rounded_input_shares_the_cast() -> None:
    e = Emitter()
    x = e.op("abs", e.input("x", TensorType((1, 6, 9, 32), F32)))
    plain = {"pads_lo": (0, 0), "pads_hi": (0, 0)}
    pointwise = e.op("conv", x, e.weight(numbers(8, 32, 1, 1)), **{**CONV, **plain, "groups": 1})
    low = lower(e.finish([depthwise(e, x), pointwise], ["y", "z"]), "fused", OPTIONS)
    assert sum(op.short == "cast" for op in low.main.walk()) == 1


def test_operands_of_two_floats_need_the_larger_as_result() -> None:
    for out in (None, BF16):
        e = Emitter()
        x = e.input("x", TensorType((1, 6, 9, 32), BF16))
        attrs = {} if out is None else {"out": out}
        with pytest.raises(InvalidModelError):
            depthwise(e, x, **attrs)


def divided(number: float, after: str = "") -> Module:
    """A division whose sum with 1 is rounded for a product, or that something else reads."""
    e = Emitter()
    x = e.op("abs", e.input("x", TensorType((4, 8), F32)))
    y = e.with_scalar("div", x, number)
    y = e.op(after, y) if after else e.with_scalar("add", y, 1.0)
    return e.finish([e.op("matmul", y, e.weight(numbers(8, 6)))], ["z"])


def test_a_divisor_becomes_a_factor_where_the_result_is_rounded() -> None:
    x = numbers(4, 8)
    low = lower(clone_module(divided(6.0)), "fused", OPTIONS)
    assert not any(op.short == "div" for op in low.main.walk())
    (got,) = run_compiled(divided(6.0), {"x": x}, OPTIONS)
    factor = np.float32(1) / np.float32(6)
    want = rounded(np.abs(x) * factor + np.float32(1)) @ rounded(numbers(8, 6))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("number", "after", "reason"),
    [
        (0.0, "", "its divisor has no normal reciprocal"),
        (float("inf"), "", "its divisor has no normal reciprocal"),
        (float("nan"), "", "its divisor has no normal reciprocal"),
        (1e-39, "", "its divisor has no normal reciprocal"),
        (6.0, "floor", "something else reads it in f32"),
    ],
)
def test_divisors_that_stay(number: float, after: str, reason: str) -> None:
    trace = Trace(detailed=True)
    lower(divided(number, after), "fused", PassOptions(precision="bf16", trace=trace))
    assert any(reason in text for text in trace.refused["bf16-divisor"])


def gate(e: Emitter, reader: str) -> Module:
    """A squeeze-and-excite block behind an activation, which ``reader`` reads too."""
    x = e.op("silu", depthwise(e, e.op("abs", e.input("x", TensorType((2, 6, 9, 32), F32)))))
    plain = {**CONV, "pads_lo": (0, 0), "pads_hi": (0, 0), "groups": 1}
    mean = e.op("reduce_mean", x, axes=(1, 2), keepdims=True)
    weights = e.op("sigmoid", e.op("conv", mean, e.weight(numbers(32, 32, 1, 1)), **plain))
    scaled = e.op("mul", x, e.broadcast(weights, x.type.shape))
    outputs = [e.op("conv", scaled, e.weight(numbers(8, 32, 1, 1, seed=1)), **plain)]
    outputs += [e.op(reader, x)] if reader else []
    return e.finish(outputs, ["y", "z"][: len(outputs)])


def test_what_is_gated_is_stored_as_bf16() -> None:
    made = gate(Emitter(), "")
    low = lower(clone_module(made), "fused", OPTIONS)
    kernels = [op for op in low.main.body.ops if op.short == "fused"]
    stored = [r.type.dtype for op in kernels for r in op.results if r.type.shape[1] == 6]
    assert stored == [BF16] * (len(stored) - 1) + [F32]
    inputs = {"x": numbers(2, 6, 9, 32)}
    (want,), (got,) = run_module(low, inputs), run_compiled(made, inputs, OPTIONS)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-2 * np.abs(want).max())


def test_what_else_is_read_stays_f32_behind_a_gate() -> None:
    trace = Trace(detailed=True)
    options = PassOptions(precision="bf16", trace=trace)
    lower(gate(Emitter(), "exp"), "fused", options)
    assert "bf16-gated" not in trace.fired
    assert any("something else reads it in f32" in t for t in trace.refused["bf16-gated"])


def test_a_single_number_is_divided_too() -> None:
    """A scalar that is scaled, put into a matrix and multiplied, as a step of time is."""
    e = Emitter()
    t = e.input("t", TensorType((), F32))
    third = e.op("div", t, e.weight(np.array(3.0, np.float32)))
    x = e.op("reshape", third, shape=(1, 1))
    w = np.arange(8, dtype=np.float32).reshape(1, 8)
    module = e.finish([e.op("abs", e.op("matmul", x, e.weight(w)))], ["y"])
    (got,) = run_compiled(module, {"t": np.float32(6.0)}, PassOptions(precision="bf16"))
    np.testing.assert_allclose(got, 2.0 * w, rtol=2.0**-8)
