"""Products and convolutions of bytes in C, exact against int64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from cuvil.codegen.c.constants import byte_squares
from cuvil.frontends.emitter import Emitter
from cuvil.ir.types import F32, I8, I32, U8, DType, TensorType
from cuvil.sym.expr import symbol
from tests.codegen.c_build import generate_c, run_c

Array = np.ndarray[Any, Any]
PLAIN = {"strides": (1, 1), "dilations": (1, 1), "pads_lo": (0, 0), "pads_hi": (0, 0), "groups": 1}
CONVS: list[tuple[tuple[int, int, int, int], dict[str, Any], int]] = [
    ((5, 17, 3, 3), {"pads_lo": (1, 0), "pads_hi": (2, 1), "strides": (2, 1)}, -7),
    ((20, 6, 2, 3), {"pads_lo": (1, 1), "pads_hi": (1, 1)}, 100),
    ((18, 1, 3, 3), {"pads_lo": (1, 1), "pads_hi": (1, 1), "groups": 18}, 3),
    ((18, 1, 3, 3), {"pads_lo": (1, 1), "pads_hi": (1, 1), "groups": 18}, 0),
    ((6, 9, 2, 2), {"groups": 2, "dilations": (2, 1)}, 0),
    ((7, 18, 1, 1), {}, 0), ((8, 9, 1, 1), {"groups": 2}, 0),
    ((7, 5, 1, 1), {"strides": (2, 1)}, 0),
    ((5, 1, 1, 1), {"groups": 5}, 0), ((6, 4, 1, 1), {"pads_lo": (1, 0), "pads_hi": (0, 2)}, 9),
]


def _numbers(rng: np.random.Generator, dtype: DType, *shape: int) -> Array:
    ends = np.iinfo(dtype.numpy)
    return rng.integers(ends.min, ends.max + 1, shape).astype(dtype.numpy)


def _convolved(x: Array, w: Array, attrs: dict[str, Any], fill: int) -> Array:
    """[N, C, H, W] with [O, C / groups, h, w] in int64, one product after the other."""
    (top, left), (low, right) = attrs["pads_lo"], attrs["pads_hi"]
    wide = np.pad(
        x.astype(np.int64), ((0, 0), (0, 0), (top, low), (left, right)), constant_values=fill
    )
    reach = [d * (k - 1) + 1 for d, k in zip(attrs["dilations"], w.shape[2:], strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(wide, reach, (2, 3))
    (sh, sw), (dh, dw) = attrs["strides"], attrs["dilations"]
    seen = seen[:, :, ::sh, ::sw, ::dh, ::dw]
    groups, each = attrs["groups"], w.shape[1]
    parts = [
        np.einsum("nchwij,ocij->nohw", seen[:, g * each : (g + 1) * each], v)
        for g, v in enumerate(np.split(w.astype(np.int64), groups))
    ]
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("dtype", [U8, I8])
def test_convolutions(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    e, inputs, outputs, wanted = Emitter({}), {}, [], []
    for i, (shape, more, zero) in enumerate(CONVS):
        attrs = {**PLAIN, **more}
        fill = zero + 128 if dtype == U8 else zero
        x, w = _numbers(rng, dtype, 2, shape[1] * attrs["groups"], 7, 6), _numbers(rng, I8, *shape)
        given = e.input(f"x{i}", TensorType(x.shape, dtype))
        made = e.op("conv", given, e.weight(w), has_bias=False, out=I32, pad_value=fill, **attrs)
        inputs[f"x{i}"] = x
        outputs.append(made)
        wanted.append(_convolved(x, w, attrs, fill))
    module = e.finish(outputs, [f"y{i}" for i in range(len(outputs))])
    for found, want in zip(run_c(module, inputs), wanted, strict=True):
        np.testing.assert_array_equal(found, want)


def test_a_pad_in_front_is_never_stored() -> None:
    e = Emitter({})
    x = e.input("x", TensorType((1, 4, 5, 5), U8))
    padded = e.op("pad", x, lo=(0, 0, 1, 0), hi=(0, 0, 1, 2), value=9.0)
    rng = np.random.default_rng(2)
    w = _numbers(rng, I8, 3, 4, 3, 3)
    made = e.op("conv", padded, e.weight(w), has_bias=False, out=I32, **PLAIN)
    module = e.finish([made], ["y"])
    assert not [name for name in generate_c(module).kernels if "pad" in name]
    data = _numbers(rng, U8, 1, 4, 5, 5)
    want = _convolved(data, w, {**PLAIN, "pads_lo": (1, 0), "pads_hi": (1, 2)}, 9)
    np.testing.assert_array_equal(run_c(module, {"x": data})[0], want)


@pytest.mark.parametrize("dtype", [U8, I8])
def test_products(dtype: DType) -> None:
    """Rows and columns of every rest, one batch for all and one each, the extremes of a byte."""
    rng = np.random.default_rng(3)
    e, inputs, outputs, wanted = Emitter({"n": (0, 9)}), {}, [], []
    shapes = [((5, 7), (7, 6)), ((1, 16), (16, 17)), ((3, 2, 5), (3, 5, 3)), ((2, 3, 4), (4, 9))]
    for i, (a, b) in enumerate(shapes):
        x, w = _numbers(rng, dtype, *a), _numbers(rng, I8, *b)
        x.flat[:3], w.flat[:3] = np.iinfo(x.dtype).max, -128
        outputs.append(e.op("matmul", e.input(f"x{i}", TensorType(a, dtype)), e.weight(w), out=I32))
        inputs[f"x{i}"] = x
        wanted.append(x.astype(np.int64) @ w.astype(np.int64))
    w, rows = _numbers(rng, I8, 6, 4), _numbers(rng, dtype, 6, 5)
    n = symbol("n")
    turned = e.op("transpose", e.input("rows", TensorType((6, n), dtype)), perm=(1, 0))
    outputs.append(e.op("matmul", turned, e.weight(w), out=I32))
    inputs["rows"] = rows
    wanted.append(rows.T.astype(np.int64) @ w.astype(np.int64))
    module = e.finish(outputs, [f"y{i}" for i in range(len(outputs))])
    for found, want in zip(run_c(module, inputs), wanted, strict=True):
        np.testing.assert_array_equal(found, want)


def test_squares_hold_each_weight_once() -> None:
    for k, n in itertools.product((1, 4, 7), (1, 4, 6)):
        matrix = np.arange(1, k * n + 1, dtype=np.int8).reshape(k, n)
        squares = byte_squares(matrix).reshape(-(-n // 4), -(-k // 4), 4, 4)
        whole = squares.transpose(1, 3, 0, 2).reshape(-(-k // 4) * 4, -1)
        np.testing.assert_array_equal(whole[:k, :n], matrix)
        assert np.count_nonzero(squares) == k * n


@pytest.mark.parametrize("value", [0.5, -0.5, 1.5, 4194303.5, 4194304.5, 8388607.5, -4194305.5,
                                   2.0**31, -(2.0**31) - 256, np.inf, -np.inf, np.nan])  # fmt: skip
def test_numbers_are_rounded_to_the_nearest_even(value: float) -> None:
    e = Emitter({})
    x = e.input("x", TensorType((), F32))
    module = e.finish([e.op("cast", e.op("round", x), dtype=I32)], ["y"])
    (found,) = run_c(module, {"x": np.asarray(value, np.float32)})
    exact = 0.0 if np.isnan(value) else float(np.rint(np.float32(value)))
    assert int(found) == int(np.clip(exact, -(2**31), 2**31 - 1))
