"""The choice of a convolution's algorithm, and what it gives end to end."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.analysis.wellformed import check_graph
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module
from cuvil.ir.types import F32, F64, DType, TensorType
from cuvil.passes import algorithms
from cuvil.passes.algorithms import best_tile
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.driver import apply_rules
from cuvil.rewrite.rewriter import Rewriter, Trace
from cuvil.sym.expr import Dim, symbol
from tests.codegen.compile_graph import run_compiled

RULE = "minimal-filtering"


def conv_module(
    side: Dim, channels: int = 64, out: int = 64, dtype: DType = F32, kernel: int = 3,
    scale: float = 0.05, **attrs: object,
) -> Module:  # fmt: skip
    """A channels-last convolution of a square image, and its absolute value."""
    rng = np.random.default_rng(0)
    e = Emitter({"n": (1, None), "h": (1, 600)})
    x = e.input("x", TensorType((symbol("n"), side, side, channels), dtype))
    w = rng.standard_normal((out, channels // int(attrs.get("groups", 1)), kernel, kernel)) * scale
    weight = e.weight(w.astype(dtype.numpy))
    pads = (kernel // 2,) * 2
    given = {
        "strides": (1, 1), "dilations": (1, 1), "pads_lo": pads, "pads_hi": pads, "groups": 1,
        "has_bias": False, "channels_last": True, **attrs,
    }  # fmt: skip
    return e.finish([e.op("abs", e.op("conv", x, weight, **given))], ["y"])


def chosen(module: Module) -> tuple[str | None, Trace]:
    trace = Trace(detailed=True)
    apply_rules(Rewriter(module.main, trace=trace), algorithms.RULES)
    check_graph(module)
    conv = next(op for op in module.main.body.ops if op.short == "conv")
    return conv.attrs.get("algorithm"), trace


@pytest.mark.parametrize(
    ("sizes", "channels", "out", "tile"),
    [
        ((1, 56, 56), 64, 64, 4),
        ((1, 28, 28), 128, 128, 4),
        ((1, 14, 14), 256, 256, 2),  # weights four times as large would have to be read
        ((8, 14, 14), 256, 256, 4),  # and are worth it for a batch
        ((1, 7, 7), 512, 512, 1),
        ((1, 224, 224), 3, 16, 1),  # transforms cost more than they spare
        ((1, 1, 1), 64, 64, 1),
    ],
)
def test_the_tile_that_costs_least(
    sizes: tuple[int, int, int], channels: int, out: int, tile: int
) -> None:
    assert best_tile(sizes, channels, out) == tile


def test_known_and_symbolic_sizes_get_an_algorithm() -> None:
    assert chosen(conv_module(56))[0] == "winograd_4"
    assert chosen(conv_module(symbol("h")))[0] == "winograd_4"
    assert chosen(conv_module(14, 256, 256))[0] == "winograd_2"


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (lambda: conv_module(56, strides=(2, 2)), "strides or dilations"),
        (lambda: conv_module(56, dilations=(1, 2)), "strides or dilations"),
        (lambda: conv_module(56, groups=2), "no 3x3 convolution over all channels"),
        (lambda: conv_module(56, kernel=5), "no 3x3 convolution over all channels"),
        (lambda: conv_module(56, dtype=F64), "not in f32"),
        (lambda: conv_module(56, algorithm="winograd_2"), "chosen"),
        (lambda: conv_module(56, 2, 2), "the direct sum is as fast"),
    ],
)
def test_refusals(module: object, reason: str) -> None:
    assert callable(module)
    _, trace = chosen(module())
    (said,) = trace.refused[RULE]
    assert reason in said


@pytest.mark.parametrize("side", [56, symbol("h")], ids=str)
def test_compiled_kernels_compute_the_convolution(side: Dim) -> None:
    module = conv_module(side)
    rng = np.random.default_rng(1)
    for n, size in [(1, 56), (2, 56)] if isinstance(side, int) else [(1, 5), (2, 31), (1, 64)]:
        x = rng.standard_normal((n, size, size, 64), np.float32)
        sizes = {"n": n, "h": size}
        (want,) = run_module(module, {"x": x}, sizes)
        (got,) = run_compiled(module, {"x": x})
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())
