"""Minimal filtering where bf16 may stand: which tile is chosen, and what is computed then."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.analysis.contraction_views import is_filtered_bf16
from cuvil.ir.clone import clone_module
from cuvil.ir.types import BF16, F32
from cuvil.passes import precision
from cuvil.passes.algorithms import best_tile_bf16
from cuvil.passes.knobs import misfit
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.driver import apply_rules
from cuvil.rewrite.rewriter import Rewriter, Trace
from cuvil.sym.expr import Dim, symbol
from cuvil.target.registry import TARGETS
from tests.codegen.compile_graph import run_compiled

from .test_algorithms import conv_module


@pytest.mark.parametrize(
    ("sizes", "channels", "out", "tile"),
    [
        ((1, 320, 320), 16, 16, 4),  # the left operand is read too often for pairs to gain
        ((1, 80, 80), 64, 64, 4),
        ((1, 28, 28), 128, 128, 2),
        ((1, 14, 14), 256, 256, 2),
        ((1, 7, 7), 512, 512, 2),  # weights of bf16 may be larger
        ((1, 3, 3), 512, 512, 1),
        ((1, 112, 112), 4, 64, 1),
    ],
)
def test_the_tile_that_costs_least(
    sizes: tuple[int, int, int], channels: int, out: int, tile: int
) -> None:
    assert best_tile_bf16(sizes, channels, out, 2.0) == tile
    assert best_tile_bf16(sizes, channels, out, 16.0) == 1  # a matrix unit needs no such help


@pytest.mark.parametrize(
    ("sizes", "channels"), [((1, 28, 28), 512), ((1, 64, 64), 640), ((1, 32, 32), 1280)]
)
def test_a_matrix_unit_multiplies_the_direct_sum_alone(
    sizes: tuple[int, int, int], channels: int
) -> None:
    assert best_tile_bf16(sizes, channels, channels, 2.0) == 2
    assert best_tile_bf16(sizes, channels, channels, 16.0) == 1


def lowered(side: Dim, channels: int, rate: float = 2.0) -> tuple[str | None, str, str]:
    """The algorithm of the one convolution, and the dtypes of its operands."""
    module = conv_module(side, channels, channels)
    lower(module, "fused", PassOptions(precision="bf16", pair_rate=rate))
    (conv,) = [op for op in module.main.walk() if op.short == "conv"]
    assert conv.type.dtype == F32
    a, b = (str(v.type.dtype) for v in conv.operands[:2])
    return conv.attrs.get("algorithm"), a, b


def test_the_input_is_rounded_and_the_weights_are_not_yet() -> None:
    assert lowered(28, 128) == ("winograd_2", "bf16", "f32")
    assert lowered(56, 64) == ("winograd_4", "bf16", "f32")
    assert lowered(56, 64, 16.0) == (None, "bf16", "bf16")


def test_an_unfit_convolution_is_refused() -> None:
    module = conv_module(56, strides=(2, 2))
    trace = Trace(detailed=True)
    apply_rules(Rewriter(module.main, trace=trace), [precision.narrow_filtering(2.0)])
    (said,) = trace.refused["bf16-minimal-filtering"]
    assert "it has strides or dilations" in said


@pytest.mark.parametrize("side", [28, symbol("h")], ids=str)
@pytest.mark.parametrize("channels", [32, 160])
def test_compiled_kernels_compute_the_convolution(side: Dim, channels: int) -> None:
    module = conv_module(side, channels, channels)
    fused = clone_module(module)
    lower(fused, "fused", PassOptions(precision="bf16", pair_rate=2.0))
    assert any(is_filtered_bf16(op) for op in fused.main.walk())
    rng = np.random.default_rng(1)
    for n, size in [(1, 28)] if isinstance(side, int) else [(1, 5), (2, 31)]:
        x = rng.standard_normal((n, size, size, channels), np.float32).astype(BF16.numpy)
        given = {"x": x.astype(np.float32)}
        (want,) = run_module(module, given, {"n": n, "h": size})
        (got,) = run_compiled(module, given, PassOptions(precision="bf16", pair_rate=2.0))
        off = np.abs(got - want)
        # Each product is off by 2^-9 of either side; sums of 9 * channels of them, at random.
        assert off.max() <= 6 * 2 * 2.0**-8 * 0.05 * np.sqrt(9 * channels)


def test_tuning_has_no_say() -> None:
    module = conv_module(28, 128, 128)
    lower(module, "fused", PassOptions(precision="bf16", pair_rate=2.0))
    kernels = [op for op in module.main.body.ops if op.short == "fused"]
    (kernel,) = [k for k in kernels if any(map(is_filtered_bf16, k.regions[0].ops))]
    assert misfit(kernel, {"algorithm": "direct"})
    assert not misfit(kernel, {})


def test_targets_know_what_they_multiply() -> None:
    rates = {name: target.pair_rate for name, target in TARGETS.items()}
    assert rates["x86_64_v3"] == rates["wasm"] == 1.0
    assert rates["x86_64-linux-gnu"] == 2.0
