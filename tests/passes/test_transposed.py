"""Transposed convolutions that become products: what is computed then, and which stay."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.ir.types import BF16, F32, TensorType
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol
from tests.codegen.compile_graph import run_compiled


def upsampling(channels: int, out: int, kernel: tuple[int, ...], groups: int = 1) -> Module:
    """A transposed convolution without overlap, a bias, and a function of it."""
    rng = np.random.default_rng([channels, out, *kernel])
    e = Emitter(dict.fromkeys("nhw", (1, None)))
    sizes = tuple(symbol(name) for name in "hw")[: len(kernel)]
    x = e.input("x", TensorType((symbol("n"), channels, *sizes), F32))
    numbers = rng.standard_normal((channels, out // groups, *kernel))
    w = e.weight(numbers.astype(BF16.numpy).astype(np.float32))  # which rounding leaves alone
    zeros = (0,) * len(kernel)
    y = e.op(
        "conv_transpose", x, w, strides=kernel, dilations=(1,) * len(kernel), pads_lo=zeros,
        pads_hi=zeros, output_padding=zeros, groups=groups, has_bias=False,
    )  # fmt: skip
    bias = e.weight(rng.standard_normal((out, *(1,) * len(kernel))).astype(np.float32))
    return e.finish([e.op("sigmoid", e.op("add", y, e.broadcast(bias, y.type.shape)))], ["y"])


def test_columns_are_those_of_the_target() -> None:
    for panel, shorts in ((32, ["matmul"]), (8, ["matmul"]), (4, ["conv_transpose"]), (0, None)):
        module = upsampling(24, 2, (2, 2))
        lower(module, "fused", PassOptions(panel=panel))
        found = [o.short for o in module.main.walk() if o.short in ("conv_transpose", "matmul")]
        assert found == (shorts or ["conv_transpose"])


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("channels", "out", "kernel", "groups", "stays"),
    [
        (24, 1, (2, 2), 1, False),
        (7, 2, (3, 2), 1, False),
        (5, 3, (4,), 1, False),
        (16, 16, (2, 2), 1, True),
        (9, 40, (2, 2), 1, True),
        (8, 4, (2, 2), 2, True),
        (12, 12, (2,), 2, True),
    ],
)
def test_what_is_computed(
    channels: int, out: int, kernel: tuple[int, ...], groups: int, stays: bool, precision: str
) -> None:
    module = upsampling(channels, out, kernel, groups)
    options = PassOptions(precision=precision)
    fused = lower(clone_module(module), "fused", options)
    ops = [op for op in fused.main.walk() if op.short in ("conv_transpose", "matmul")]
    assert [op.short for op in ops] == ["conv_transpose" if stays else "matmul"]
    assert (ops[0].operands[0].type.dtype == BF16) == (precision == "bf16")
    rng = np.random.default_rng(0)
    for sizes in ((1, 1, 1), (2, 5, 8)):
        x = rng.standard_normal((sizes[0], channels, *sizes[1 : 1 + len(kernel)]))
        given = {"x": x.astype(BF16.numpy).astype(np.float32)}
        (want,) = run_module(module, given, dict(zip("nhw", sizes, strict=True)))
        (got,) = run_compiled(module, given, options)
        assert np.abs(got - want).max() <= 1e-6
