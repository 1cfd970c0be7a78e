"""Bias, residual and clamp in a contraction's registers: the same as computed one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cuvil.codegen.module import generate
from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module, Value
from cuvil.ir.types import F32, TensorType
from cuvil.passes.pipeline import lower
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol
from cuvil.target.registry import find_target
from tests.codegen.compile_graph import run_compiled

ROWS, INNER, COLUMNS = 37, 19, 45
PARTS = list(itertools.product([False, True], repeat=4))


def finished(
    e: Emitter, value: Value, columns: int, bias: bool, residual: bool, low: bool, high: bool
) -> Value:
    """``value`` with those parts after it, in the order that kernels have."""
    rng = np.random.default_rng(2)
    if bias:
        vector = e.weight(rng.standard_normal(columns).astype(np.float32))
        value = e.op("add", value, e.broadcast(vector, value.type.shape))
    if residual:
        value = e.op("add", e.input("r", value.type), value)
    if low:
        value = e.with_scalar("max", value, -0.5)
    if high:
        value = e.with_scalar("min", value, 0.75)
    return value


def matmul(*parts: bool) -> Module:
    e = Emitter({"n": (0, None)})
    a = e.input("x", TensorType((symbol("n"), INNER), F32))
    rng = np.random.default_rng(0)
    b = e.weight(rng.standard_normal((INNER, COLUMNS)).astype(np.float32))
    return e.finish([finished(e, e.op("matmul", a, b), COLUMNS, *parts)], ["y"])


def conv(groups: int, *parts: bool) -> Module:
    e = Emitter({"n": (0, None)})
    x = e.input("x", TensorType((symbol("n"), 6, 7, 12), F32))
    rng = np.random.default_rng(0)
    w = e.weight(rng.standard_normal((70, 12 // groups, 2, 2)).astype(np.float32))
    attrs = {
        "strides": (1, 1), "dilations": (1, 1), "pads_lo": (0, 1), "pads_hi": (0, 0),
        "groups": groups, "has_bias": False, "channels_last": True,
    }  # fmt: skip
    return e.finish([finished(e, e.op("conv", x, w, **attrs), 70, *parts)], ["y"])


def depthwise(channels: int, kernel: int, stride: int, *parts: bool) -> Module:
    e = Emitter({"n": (0, None)})
    x = e.input("x", TensorType((symbol("n"), 9, 17, channels), F32))
    rng = np.random.default_rng(0)
    w = e.weight(rng.standard_normal((channels, 1, kernel, kernel)).astype(np.float32))
    attrs = {
        "strides": (stride, stride), "dilations": (1, 1), "pads_lo": (1, 1), "pads_hi": (1, 1),
        "groups": channels, "has_bias": False, "channels_last": True,
    }  # fmt: skip
    return e.finish([finished(e, e.op("conv", x, w, **attrs), channels, *parts)], ["y"])


def text_of(module: Module) -> str:
    lowered = lower(clone_module(module), "fused")
    return "".join(generate(lowered, find_target("native")).sources.values())


def inputs_of(module: Module, n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    found = {}
    for name, value in zip(module.main.input_names, module.main.inputs, strict=True):
        shape = [n, *(int(str(d)) for d in value.type.shape[1:])]
        found[name] = rng.standard_normal(shape).astype(np.float32)
    found["x"].reshape(-1)[5:6] = np.nan
    return found


def check(module: Module, sizes: tuple[int, ...]) -> None:
    for n in sizes:
        inputs = inputs_of(module, n)
        (want,) = run_module(module, inputs, {"n": n})
        (got,) = run_compiled(module, inputs)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_the_kernel_is_told_what_to_finish(parts: tuple[bool, ...]) -> None:
    text = text_of(matmul(*parts))
    bias, residual, low, high = parts
    assert ("args.finish.bias" in text) == bias
    assert ("args.finish.residual" in text) == residual
    assert ("args.finish.clamped" in text) == (low or high)
    assert "finish_tile" not in text


@pytest.mark.parametrize("parts", [PARTS[-1], PARTS[0b1001], PARTS[0b0110]], ids=str)
def test_products(parts: tuple[bool, ...]) -> None:
    check(matmul(*parts), (0, 1, 3, ROWS))


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(groups: int) -> None:
    check(conv(groups, *PARTS[-1]), (1, 2))


@pytest.mark.parametrize("channels", [7, 37])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (4, 1)])
def test_depthwise(channels: int, kernel: int, stride: int) -> None:
    module = depthwise(channels, kernel, stride, True, False, True, True)
    assert "finish_tile" not in text_of(module)
    check(module, (1, 2))


def test_depthwise_with_a_residual() -> None:
    module = depthwise(37, 3, 1, *PARTS[-1])
    assert "finish_tile" in text_of(module)
    check(module, (1,))


def test_another_order_is_computed_as_it_stands() -> None:
    e = Emitter()
    a = e.input("x", TensorType((ROWS, INNER), F32))
    rng = np.random.default_rng(0)
    b = e.weight(rng.standard_normal((INNER, COLUMNS)).astype(np.float32))
    cut = e.with_scalar("max", e.op("matmul", a, b), 0.0)
    bias = e.weight(rng.standard_normal(COLUMNS).astype(np.float32))
    module = e.finish([e.op("add", cut, e.broadcast(bias, cut.type.shape))], ["y"])
    assert "finish_tile" in text_of(module)
    x = rng.standard_normal((ROWS, INNER)).astype(np.float32)
    (want,) = run_module(module, {"x": x})
    np.testing.assert_allclose(run_compiled(module, {"x": x})[0], want, atol=2e-5)
