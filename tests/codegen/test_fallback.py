"""Operators without a kernel of their own, written with those that have one."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module, Op, walk
from cuvil.ir.types import F16, F32, F64, DType, TensorType
from cuvil.passes import fallback, fallback_conv
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.rule import Context, Refusal, Rule
from cuvil.sym.expr import symbol
from cuvil.sym.facts import Facts
from tests.codegen.compile_graph import Array, batch, build, compare, outputs_of, run_compiled
from tests.ops.checks import assert_matches
from tests.ops.generators import cases
from tests.ops.values import Case, case

n, s = symbol("n"), symbol("s")


def close(got: Array, want: Array, what: str) -> None:
    """Equal for exact dtypes, some roundings apart for floats."""
    assert_matches(got, want, what, 8.0)


def sample(name: str, step: int, start: int = 0) -> list[Case]:
    """Some of the generated calls, spread over all kinds of them."""
    return list(islice(cases(name, np.random.default_rng(4)), start, None, step))


@pytest.mark.parametrize(
    ("name", "step"), [("matmul", 3), ("attention", 4), ("conv", 6), ("conv_transpose", 6)]
)
def test_drawn_calls_agree_with_the_reference(name: str, step: int) -> None:
    assert compare(batch(name, sample(name, step)), close, threads=2) >= 10


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_constant_weights_agree_with_the_reference(name: str) -> None:
    compare(batch(name, sample(name, 6, 2), constant=(1, 2)), close, threads=2)


_CUBE: dict[str, Any] = {
    "strides": (1, 2, 1), "pads_lo": (1, 1, 0), "pads_hi": (0, 1, 1), "dilations": (2, 1, 1),
}  # fmt: skip


def _conv(spatial: int, dtype: DType = F32, name: str = "conv", **more: Any) -> Module:
    """A convolution over symbolic sizes, weights constant, 4 channels in two groups."""
    e = Emitter({"n": (0, None), "s": (4, None)})
    x = e.input("x", TensorType((n, 4, *[s] * spatial), dtype))
    kernel = (2, 3, 3)[-spatial:]
    rng = np.random.default_rng(1)
    w = e.weight(rng.standard_normal((4, 2, *kernel)).astype(dtype.numpy))
    attrs = {k: v[-spatial:] for k, v in _CUBE.items()}
    y = e.op(name, x, w, groups=2, has_bias=False, **attrs, **more)
    return e.finish([e.op("tanh", y)], ["y"])


@pytest.mark.parametrize(
    "module",
    [
        _conv(3), _conv(2, F64), _conv(1, F16),
        _conv(3, F32, "conv_transpose", output_padding=(0, 1, 0)),
        _conv(2, F64, "conv_transpose", output_padding=(1, 0)),
    ],
    ids=["depth", "f64", "f16", "transposed depth", "transposed f64"],
)  # fmt: skip
def test_convolutions_take_any_size(module: Module) -> None:
    rng = np.random.default_rng(0)
    x_type = module.main.inputs[0].type
    with build(module, threads=2) as artifact:
        for batch_size, size in ((2, 4), (1, 7), (0, 5)):
            shape = (batch_size, 4, *[size] * (x_type.rank - 2))
            x = rng.standard_normal(shape).astype(x_type.dtype.numpy)
            (want,) = run_module(module, {"x": x})
            (got,) = outputs_of(artifact, module, {"x": x})
            close(got, want, str(shape))


def test_attention_without_a_visible_key_gives_zeros_in_f64() -> None:
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 5, 4))
    mask = np.ones((5, 5), bool)
    mask[2] = False
    call = case(q, k, v, mask, scale=0.5, causal=False, has_mask=True)
    made = batch("attention", [call])
    compare(made, close)
    (out,) = run_compiled(made.module, made.inputs)
    assert not out[0, :, 2].any() and out[0, :, 1].any()


def test_everything_compiles_without_fuel() -> None:
    """The rules are required: what they rewrite has no kernel otherwise."""
    for name, constant in (("conv", (1, 2)), ("conv_transpose", ()), ("attention", ())):
        made = batch(name, sample(name, 20, 1), constant=constant)
        compare(made, close, PassOptions(fuel=0))


def test_a_half_product_is_one_f32_product_between_casts() -> None:
    e = Emitter()
    a, b = (e.input(k, TensorType((3, 3), F16)) for k in "ab")
    module = lower(e.finish([e.op("matmul", a, b)], ["y"]), "canonical")
    products = [op for op in walk(module.main.body) if op.short == "matmul"]
    assert [op.type.dtype for op in products] == [F32]


def _reason(rule: Rule, op: Op) -> str:
    outcome = rule.apply(op, Context(Facts({})))
    assert isinstance(outcome, Refusal), f"{rule.name} fires"
    return outcome.reason


def _op(name: str, *shapes: tuple[int, ...], dtype: DType = F32, **attrs: Any) -> Op:
    e = Emitter()
    operands = [e.input(f"x{i}", TensorType(t, dtype)) for i, t in enumerate(shapes)]
    made = e.op(name, *operands, **attrs).op
    assert made is not None
    return made


def _plain_conv(dtype: DType = F32, bias: bool = False) -> Op:
    extra = ((2,),) if bias else ()
    ones: dict[str, Any] = dict.fromkeys(("strides", "dilations"), (1,))
    pads: dict[str, Any] = dict.fromkeys(("pads_lo", "pads_hi"), (0,))
    return _op(
        "conv", (1, 2, 9), (2, 2, 3), *extra, dtype=dtype, groups=1, has_bias=bias, **ones, **pads
    )


def test_refusals_say_why() -> None:
    product, half = (_op("matmul", (2, 2), (2, 2), dtype=d) for d in (F32, F16))
    assert _reason(fallback.compute_in_f32, product) == "no operand is a 16-bit float"
    assert _reason(fallback.multiply_and_sum, product) == "it has a kernel"
    assert _reason(fallback.multiply_and_sum, half) == "it is computed in f32"
    nearest = _op(
        "resize", (1, 4), dtype=F16, sizes=(1, 8), mode="nearest", coordinate="half_pixel",
        nearest="floor",
    )  # fmt: skip
    assert _reason(fallback.compute_in_f32, nearest) == "it only moves elements"
    attention = _op("attention", *[(1, 1, 2, 2)] * 3, scale=1.0, causal=False, has_mask=False)
    assert "computed in f32" in _reason(fallback.decompose_attention, attention)
    assert _reason(fallback.attention_without_keys, attention) == "there may be a key"
    patches = fallback_conv.conv_of_patches
    assert _reason(patches, _plain_conv(bias=True)) == "its bias is still to be split off"
    assert _reason(patches, _plain_conv(F16)) == "it is computed in f32"


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_an_f32_convolution_with_constant_weights_stays_one(spatial: int) -> None:
    ops = list(walk(lower(_conv(spatial), "canonical").main.body))
    (conv,) = (op for op in ops if op.short == "conv")
    assert conv.type.rank == spatial + 2 and conv.attrs["groups"] == 2
    assert _reason(fallback_conv.conv_of_patches, conv) == "it has a kernel"
    assert not any(op.short in ("matmul", "concat", "reduce_sum") for op in ops)


def test_a_transposed_convolution_over_depth_becomes_a_convolution() -> None:
    module = lower(_conv(3, F32, "conv_transpose", output_padding=(0, 1, 0)), "canonical")
    names = [op.short for op in walk(module.main.body)]
    assert names.count("conv") == 1 and "conv_transpose" not in names and "matmul" not in names
