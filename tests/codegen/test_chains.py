"""Convolutions row by row in one kernel: which ones, why others not, and what they give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module, Value
from cuvil.ir.types import F32, TensorType
from cuvil.passes.chains import CHAIN_ROWS
from cuvil.passes.knobs import contraction_of
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.rewriter import Trace
from cuvil.sym.expr import Dim, symbol
from tests.codegen.compile_graph import build, outputs_of


@dataclass(frozen=True)
class Block:
    """A block of MobileNetV2: a 1x1 convolution, a depthwise one, another 1x1 one.

    ``after`` is what follows the inner convolutions. ``squeeze`` scales the channels by their
    means in between, ``spy`` returns the depthwise convolution's input as well, ``twice`` the
    output and its double.
    """

    h: Dim = 52
    w: Dim = 53
    n: Dim = 1
    c: int = 16
    mid: int = 100
    oc: int = 24
    k: int = 3
    s: int = 1
    dilation: int = 1
    after: str = "relu6"
    expand: bool = True
    project: bool = True
    residual: bool = False
    squeeze: bool = False
    spy: bool = False
    twice: bool = False

    def module(self) -> Module:
        """The block with random weights, channels first as models have it."""
        rng = np.random.default_rng(0)
        e = Emitter({"n": (1, None), "h": (1, None), "w": (1, None)})
        first = self.c if self.expand else self.mid
        x = e.input("x", TensorType((self.n, first, self.h, self.w), F32))

        def weight(*shape: int) -> Value:
            return e.weight(rng.standard_normal(shape).astype(np.float32) / 4)

        def conv(x: Value, out: int, k: int, s: int, groups: int, dilation: int = 1) -> Value:
            pad = (k // 2 * dilation,) * 2
            inner = x.type.shape[1]
            assert isinstance(inner, int)
            y = e.op(
                "conv", x, weight(out, inner // groups, k, k), strides=(s, s), pads_lo=pad,
                pads_hi=pad, dilations=(dilation,) * 2, groups=groups, has_bias=False,
            )  # fmt: skip
            return e.map("add", y, weight(1, out, 1, 1))

        def act(x: Value) -> Value:
            if self.after == "relu6":
                return e.with_scalar("min", e.with_scalar("max", x, 0.0), 6.0)
            return e.op(self.after, x) if self.after else x

        a = act(conv(x, self.mid, 1, 1, 1)) if self.expand else x
        b = act(conv(a, self.mid, self.k, self.s, self.mid, self.dilation))
        if self.squeeze:
            mean = e.op("reduce_mean", b, axes=(2, 3), keepdims=True)
            scale = act(conv(mean, self.mid, 1, 1, 1))
            b = e.map("mul", b, scale)
        y = conv(b, self.oc, 1, 1, 1) if self.project else b
        if self.residual:
            y = e.op("add", y, x)
        outputs = [y, a] if self.spy else [y, e.op("add", y, y)] if self.twice else [y]
        return e.finish(outputs, ["y", "a"][: len(outputs)])


def fused(module: Module) -> tuple[list[int], list[str]]:
    """How many convolutions each kernel has that has some, and why there are not more."""
    trace = Trace(detailed=True)
    made = lower(clone_module(module), "fused", PassOptions(trace=trace))
    regions = [op.regions[0].ops for op in made.main.body.ops if op.short == "fused"]
    counts = [sum(op.short == "conv" for op in ops) for ops in regions]
    return [n for n in counts if n], list(trace.refused.get(CHAIN_ROWS, ()))


SYMBOLIC = Block(h=symbol("h"), w=symbol("w"), n=symbol("n"))
JOINED = {
    "stride 1": (Block(), [3]),
    "stride 2": (Block(s=2), [3]),
    "5x5": (Block(k=5, after="silu"), [3]),
    "5x5 stride 2, without maps": (Block(k=5, s=2, after=""), [3]),
    "residual": (Block(oc=16, residual=True), [3]),
    "squeeze and excitation": (Block(squeeze=True), [2, 1, 1]),
    "expand alone": (Block(project=False), [2]),
    "another reader at the end": (Block(project=False, twice=True), [2]),
    "project alone, large": (Block(h=91, w=92, expand=False), [2]),
    "several images": (Block(n=2), [3]),
    "symbolic": (SYMBOLIC, [3]),
    "symbolic, stride 2": (replace(SYMBOLIC, s=2), [3]),
}


@pytest.mark.parametrize(("block", "counts"), JOINED.values(), ids=JOINED)
def test_what_is_joined(block: Block, counts: list[int]) -> None:
    assert fused(block.module())[0] == counts


BEFORE_AND_AFTER = {
    "what lies between stays in the caches": Block(h=20, w=20),
    "is no 1x1 convolution in f32; after it, what lies between is written": Block(expand=False),
    "what lies between has another reader; after it, what": Block(spy=True),
    "rows and weights are too large to stay in the caches": Block(c=1500),
    "its window is not 3x3 or 5x5": Block(k=7),
    "its window is not": Block(dilation=2),
    "its strides are not 1 or 2": Block(s=3),
    "fewer than 16 channels": Block(h=300, w=300, mid=15),
}


@pytest.mark.parametrize(("reason", "block"), BEFORE_AND_AFTER.items())
def test_refusals(reason: str, block: Block) -> None:
    counts, (said,) = fused(block.module())
    assert set(counts) == {1}
    assert reason in said


def test_weights_too_large_leave_the_last_convolution_apart() -> None:
    assert fused(Block(oc=1500).module()) == ([2, 1], [])


def test_a_convolution_between_two_depthwise_ones_goes_to_the_second() -> None:
    """conv1x1, depthwise, conv1x1, depthwise: two pairs."""
    e = Emitter()
    x = e.input("x", TensorType((1, 52, 53, 16), F32))
    rng = np.random.default_rng(0)
    for out, groups in ((100, 1), (100, 100), (100, 1), (100, 100)):
        k = 1 if groups == 1 else 3
        inner = x.type.shape[-1]
        assert isinstance(inner, int)
        weight = e.weight(rng.standard_normal((out, inner // groups, k, k)).astype(np.float32))
        x = e.op(
            "conv", x, weight, strides=(1, 1), dilations=(1, 1), pads_lo=(k // 2,) * 2,
            pads_hi=(k // 2,) * 2, groups=groups, has_bias=False, channels_last=True,
        )  # fmt: skip
    assert fused(e.finish([x], ["y"])) == ([2, 2], [])


def test_tuning_has_no_knobs_of_one_convolution_among_several() -> None:
    made = lower(Block().module(), "fused")
    kernels = [op for op in made.main.body.ops if op.short == "fused"]
    assert [contraction_of(op) for op in kernels] == [None] * len(kernels)


def test_products_of_bf16_stand_alone() -> None:
    trace = Trace(detailed=True)
    made = lower(Block().module(), "fused", PassOptions(trace=trace, precision="bf16"))
    regions = [op.regions[0].ops for op in made.main.body.ops if op.short == "fused"]
    assert max(sum(op.short == "conv" for op in ops) for ops in regions) == 1
    (said,) = trace.refused[CHAIN_ROWS]
    assert "it is no convolution of images in f32 with constant weights" in said


def test_options_turn_chains_off() -> None:
    module = Block().module()
    for options in (PassOptions(chains=False), PassOptions(fuel=0), PassOptions(False)):
        made = lower(clone_module(module), "fused", options)
        regions = [op.regions[0].ops for op in made.main.body.ops if op.short == "fused"]
        assert max(sum(op.short == "conv" for op in ops) for ops in regions) == 1


SIZES = ((1, 52, 53), (2, 5, 3), (1, 1, 40))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["stride 1", "5x5", "residual", "squeeze and excitation",
                                  "project alone, large", "symbolic",
                                  "symbolic, stride 2"])  # fmt: skip
def test_compiled_kernels_compute_the_same(name: str, threads: int) -> None:
    block = JOINED[name][0]
    module = block.module()
    sizes = SIZES if block.n is SYMBOLIC.n else [(block.n, block.h, block.w)]
    with (
        build(module, None, threads) as joined,
        build(module, PassOptions(chains=False), threads) as apart,
    ):
        for n, h, w in sizes:
            rng = np.random.default_rng(3)
            x = rng.standard_normal((n, block.c if block.expand else block.mid, h, w), np.float32)
            (got,) = outputs_of(joined, module, {"x": x})
            (alone,) = outputs_of(apart, module, {"x": x})
            (want,) = run_module(module, {"x": x}, {"n": n, "h": h, "w": w})
            np.testing.assert_allclose(got, want, atol=2e-6 * np.abs(want).max() * block.mid)
            np.testing.assert_array_equal(got, alone)
