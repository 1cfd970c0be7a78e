"""Products of bytes with a constant: compiled against the reference, exactly, for every way the
left operand may lie in memory and with and without maps on their tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cuvil.analysis.contraction_views import is_byte_product
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module, Op, Value
from cuvil.ir.types import F32, I8, I32, U8, DType, TensorType
from cuvil.passes.pipeline import lower
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol
from tests.codegen.compile_graph import build

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def _bytes(kind: DType, *shape: int) -> Array:
    info = np.iinfo(kind.numpy)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind.numpy)


def _module(kind: DType, shape: Any, weight: Array, left: Callable[[Emitter, Value], Value],
            after: bool, **attrs: Any) -> Module:  # fmt: skip
    e = Emitter({"m": (0, None)})
    x = e.input("x", TensorType(shape, kind))
    out = e.op("matmul", left(e, x), e.weight(weight), out=I32, **attrs)
    if after:
        scaled = e.map("mul", e.cast(out, F32), e.weight(np.full(1, 0.37, np.float32)))
        out = e.with_scalar("max", scaled, 0)
    return e.finish([out], ["y"])


def _products(module: Module) -> list[Op]:
    fused = lower(module, "fused")
    return [op for op in fused.main.walk() if op.short == "matmul"]


def _check(module: Module, *shapes: tuple[int, ...], kind: DType) -> None:
    with build(module) as artifact:
        for shape in shapes:
            x = _bytes(kind, *shape)
            (want,) = run_module(module, {"x": x})
            got = np.asarray(artifact.run({"x": x})["y"])
            np.testing.assert_array_equal(got, want)
    (product,) = _products(module)
    assert is_byte_product(product)


def _same(e: Emitter, x: Value) -> Value:
    return x


@pytest.mark.parametrize("kind", [U8, I8], ids=str)
@pytest.mark.parametrize("after", [False, True])
def test_sizes(kind: DType, after: bool) -> None:
    m = symbol("m")
    for k, n in ((37, 45), (1, 1), (4, 33)):
        module = _module(kind, (m, k), _bytes(I8, k, n), _same, after)
        _check(module, (1, k), (13, k), (40, k), (0, k), kind=kind)
    module = _module(kind, (2, m, 37), _bytes(I8, 37, 5), _same, after)
    _check(module, (2, 3, 37), (2, 30, 37), kind=kind)
    module = _module(kind, (3, m, 9), _bytes(I8, 3, 9, 20), _same, after)
    _check(module, (3, 7, 9), kind=kind)


@pytest.mark.parametrize("after", [False, True])
def test_left_operands_in_other_orders(after: bool) -> None:
    m = symbol("m")
    weight = _bytes(I8, 10, 6)
    cut: Callable[[Emitter, Value], Value] = lambda e, x: e.slice(x, 1, 3, 13)  # noqa: E731
    _check(_module(U8, (m, 20), weight, cut, after), (7, 20), kind=U8)
    turn: Callable[[Emitter, Value], Value] = lambda e, x: e.transpose(x, (1, 0))  # noqa: E731
    _check(_module(U8, (10, m), weight, turn, after), (10, 7), kind=U8)
    _check(_module(U8, (10, m), weight, _same, after, trans_a=True), (10, 7), kind=U8)
    swap: Callable[[Emitter, Value], Value] = lambda e, x: e.transpose(x, (1, 0, 2))  # noqa: E731
    _check(_module(U8, (m, 3, 10), weight, swap, after), (5, 3, 10), kind=U8)


def test_sums_wrap_and_starts_are_exact() -> None:
    """Extremes that 16 bits can't hold, and a signed left operand's correction."""
    weight = np.full((300, 8), -128, np.int8)
    for kind, value in ((U8, 255), (I8, -128), (I8, 127)):
        module = _module(kind, (2, 300), weight, _same, False)
        with build(module) as artifact:
            x = np.full((2, 300), value, kind.numpy)
            got = np.asarray(artifact.run({"x": x})["y"])
        assert (got == 300 * value * -128).all()


def test_weights_of_other_types_have_no_such_kernel() -> None:
    for kind, weight in ((U8, _bytes(U8, 5, 4)), (I32, np.ones((5, 4), np.int32))):
        e = Emitter()
        x = e.input("x", TensorType((3, 5), kind))
        module = e.finish([e.op("matmul", x, e.weight(weight), out=I32)], ["y"])
        x_array = np.arange(15).reshape(3, 5).astype(kind.numpy)
        (want,) = run_module(module, {"x": x_array})
        with build(module) as artifact:
            got = np.asarray(artifact.run({"x": x_array})["y"])
        np.testing.assert_array_equal(got, want)
        assert not _products(module)
