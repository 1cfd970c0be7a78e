"""depthwise_conv_bf16 against NumPy in float64, of an input that bf16 holds."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cuvil.codegen.kernel import THREADS
from cuvil.codegen.native_scratch import depthwise_scratch
from cuvil.codegen.packing_bf16 import pack_depthwise_bf16
from cuvil.sym.expr import evaluate

from .conv_harness import SINK, Shape, conv_reference, normal
from .harness import NATIVE as FOLDER
from .harness import NEON, SSE, WASM, Machine, address, aligned_zeros, build, compile_object
from .test_gemm_bf16 import machines

CORE = ("core_depthwise.cpp", "core_depthwise_bf16.cpp")
WRAPPERS = (
    r"""
#include "depthwise_bf16.hpp"
using namespace cuvil;
"""
    + SINK
    + r"""
// p: n c (in pairs), then for h and w: input, output, kernel, stride, pad.
static DepthwiseArgs arguments(const int64_t* p, const float* x, const float* w, void* scratch,
                               void* pool) {
  const int64_t *v = p + 2, *u = p + 7;
  DepthwiseArgs a = {};
  a.n = p[0], a.c = p[1];
  a.d = a.od = a.kd = a.sd = a.dd = a.dh = a.dw = 1;
  a.h = v[0], a.oh = v[1], a.kh = v[2], a.sh = v[3], a.ph = v[4];
  a.w = u[0], a.ow = u[1], a.kw = u[2], a.sw = u[3], a.pw = u[4];
  a.x = x, a.w_packed = w, a.scratch = scratch, a.pool = static_cast<Pool*>(pool);
  return a;
}
EXPORT void depthwise(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                      void* scratch, void* pool) {
  const Sink sink = {y, visits, 2 * p[1]};
  DepthwiseArgs a = arguments(p, x, w, scratch, pool);
  if (visits) a.epilogue = {doubled, &sink};
  else a.y = y;
  depthwise_conv_bf16(a);
}
// With a bias and a clamp to [-1, 1]: as bf16 into half, and as f32 into y unless that is null.
EXPORT void finished(const int64_t* p, const float* x, const float* w, const float* bias, float* y,
                     uint16_t* half, void* scratch) {
  DepthwiseArgs a = arguments(p, x, w, scratch, nullptr);
  a.y = y ? y : (float*)half;
  a.finish.bias = bias;
  a.finish.low = -1, a.finish.high = 1, a.finish.clamped = true;
  a.finish.half = half, a.finish.half_only = !y;
  depthwise_conv_bf16(a);
}
EXPORT int64_t scratch_bytes(int64_t pairs) { return depthwise_bf16_scratch_bytes(pairs); }
"""
)
BF16 = ml_dtypes.bfloat16
SHAPES = [
    Shape(1, 5, 9, 32, 32, 3, 3, ph=1, pw=1, end_h=1, end_w=1),
    Shape(2, 9, 33, 34, 34, 3, 3, ph=1, pw=1, end_h=1, end_w=1),  # a vector that overlaps
    Shape(1, 8, 130, 40, 40, 3, 3, sh=2, sw=2, end_h=1, end_w=1),  # more than a segment
    Shape(1, 7, 61, 144, 144, 3, 3, sh=2, sw=1, ph=1, pw=1, end_h=1, end_w=1),
    Shape(1, 6, 6, 286, 286, 5, 5, ph=2, pw=2, end_h=2, end_w=2),  # several pieces
    Shape(2, 9, 30, 64, 64, 5, 5, sh=1, sw=2, ph=2, pw=2, end_h=2, end_w=1),
    Shape(1, 2, 1, 32, 32, 5, 5, ph=2, pw=2, end_h=2, end_w=2),  # hardly any input
    Shape(1, 4, 3, 32, 32, 3, 3, ph=4, pw=5, end_h=4, end_w=6),  # windows in the padding
    Shape(0, 4, 4, 32, 32, 3, 3),
]


class Native:
    """The compiled wrappers of one machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.library = build(folder, machine, WRAPPERS, CORE)
        self.library.test_pool.restype = ctypes.c_void_p
        self.library.scratch_bytes.restype = ctypes.c_int64

    def scratch(self, channels: int) -> tuple[np.ndarray, int]:
        """NaN, and how many of its elements are scratch."""
        count = self.library.scratch_bytes(ctypes.c_int64(channels // 2)) // 4
        assert evaluate(depthwise_scratch(9, channels // 2, True), {THREADS: 3}) == 4 * count
        room = aligned_zeros(count + 16)
        room[:] = np.nan
        return room, count

    def depthwise(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False, threads: int = 1
    ) -> np.ndarray:
        scratch, count = self.scratch(s.c)
        total = s.n * math.prod(s.out()) * s.c
        y: np.ndarray = np.full(total + 16, 7, np.float32)
        visits = np.zeros(total, np.float32) if epilogue else None
        pool = ctypes.c_void_p(self.library.test_pool() if threads > 1 else None)
        arrays = (numbers(s), x, pack_depthwise_bf16(w), y, visits, scratch)
        self.library.depthwise(*map(address, arrays), pool)
        assert np.isnan(scratch[count:]).all(), "wrote past its scratch"
        assert (y[total:] == 7).all(), "wrote past its output"
        if visits is not None:
            assert (visits == 1).all(), "an element was not handed over exactly once"
            y = y / 2
        return y[:total].reshape(s.n, *s.out(), s.c)

    def finished(
        self, s: Shape, x: np.ndarray, w: np.ndarray, bias: np.ndarray, kept: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        scratch, _ = self.scratch(s.c)
        shape = (s.n, *s.out(), s.c)
        half, y = np.zeros(shape, BF16), np.zeros(shape, np.float32) if kept else None
        arrays = (numbers(s), x, pack_depthwise_bf16(w), bias, y, half, scratch)
        self.library.finished(*map(address, arrays))
        return half, y


def numbers(s: Shape) -> np.ndarray:
    _, oh, ow = s.out()
    sizes = [s.n, s.c // 2, s.h, oh, s.kh, s.sh, s.ph, s.w, ow, s.kw, s.sw, s.pw]
    return np.array(sizes, np.int64)


def data(s: Shape) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([s.h, s.w, s.c])
    x = normal(rng, s.n, 1, s.h, s.w, s.c).astype(BF16)
    return x, normal(rng, s.c, 1, 1, s.kh, s.kw)


def reference(s: Shape, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Products and sums in float64, each channel by itself."""
    padded = np.pad(
        x[:, 0].astype(np.float64),
        ((0, 0), (s.ph, s.ph + s.end_h + s.kh), (s.pw, s.pw + s.end_w + s.kw), (0, 0)),
    )
    _, oh, ow = s.out()
    y = np.zeros((s.n, 1, oh, ow, s.c))
    for i, j in np.ndindex(s.kh, s.kw):
        seen = padded[:, i : i + oh * s.sh : s.sh, j : j + ow * s.sw : s.sw][:, :oh, :ow]
        y[:, 0] += seen * w[:, 0, 0, i, j].astype(np.float64)
    return y


@pytest.fixture(scope="module", params=machines(), ids=lambda m: m.name)
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("depthwise"), request.param)


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_matches_float64(native: Native, shape: Shape, epilogue: bool) -> None:
    x, w = data(shape)
    want = reference(shape, x, w)
    bound = 40 * 2.0**-24 * np.abs(want).max(initial=1)
    for threads in (1, 2):
        got = native.depthwise(shape, x, w, epilogue, threads)
        np.testing.assert_allclose(got, want, rtol=0, atol=bound)


def test_the_reference_is_that_of_other_convolutions() -> None:
    shape = Shape(2, 5, 6, 4, 4, 3, 3, sh=2, ph=1, pw=1, end_h=1, end_w=1, groups=4)
    x, w = data(shape)
    plain = conv_reference(x.astype(np.float64), w.astype(np.float64), shape)
    np.testing.assert_allclose(reference(shape, x, w), plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_finishes_in_registers(native: Native, shape: Shape, kept: bool) -> None:
    """Whole numbers over 64, so that sums are exact: rounded as NumPy rounds, ties to even."""
    rng = np.random.default_rng(shape.c)
    x = rng.integers(-15, 16, (shape.n, 1, shape.h, shape.w, shape.c)).astype(BF16)
    w = rng.integers(-15, 16, (shape.c, 1, 1, shape.kh, shape.kw)).astype(np.float32) / 64
    bias = rng.integers(-63, 64, shape.c).astype(np.float32) / 512
    want = np.clip(reference(shape, x, w) + bias, -1, 1).astype(np.float32)
    half, y = native.finished(shape, x, w, bias, kept)
    np.testing.assert_array_equal(half, want.astype(BF16))
    if y is not None:
        np.testing.assert_array_equal(y, want)


def test_nan_and_infinity_stay_in_their_channel(native: Native) -> None:
    shape = Shape(1, 6, 20, 64, 64, 3, 3, ph=1, pw=1, end_h=1, end_w=1)
    x, w = data(shape)
    x[0, 0, 2, 5, 6], x[0, 0, 3, 9, 7] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        want = reference(shape, x, w)
    got = native.depthwise(shape, x, w)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(np.isinf(got), np.isinf(want))
    assert np.isnan(got).any() and np.isinf(got).any()
    half, _ = native.finished(shape, x, w, np.zeros(64, np.float32), False)
    assert np.array_equal(np.isnan(half.astype(np.float32)), np.isnan(want))


def test_weights_of_an_odd_number_of_channels_are_refused() -> None:
    with pytest.raises(ValueError, match="an odd number of channels has no pairs"):
        pack_depthwise_bf16(np.zeros((3, 1, 3, 3), np.float32))


@pytest.mark.parametrize("machine", [SSE, NEON, WASM], ids=lambda m: m.name)
def test_compiles_for_other_machines(tmp_path: Path, machine: Machine) -> None:
    compile_object(FOLDER / "core_depthwise_bf16.cpp", tmp_path / "out.o", machine)
