"""Convolutions (grouped, depthwise, transposed) against a plain NumPy definition in float64."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from cuvil.codegen.packing import pack_conv_transpose, pack_conv_weights, pack_depthwise

from .harness import (
    NATIVE,
    NEON,
    WASM,
    Machine,
    address,
    aligned_zeros,
    build,
    compile_object,
    integers,
    runnable,
)

CORE = (
    "core_tile.cpp",
    "core_gemm.cpp",
    "core_conv.cpp",
    "core_depthwise.cpp",
    "core_conv_transpose.cpp",
)
WRAPPERS = r"""
#include "conv.hpp"
#include "conv_transpose.hpp"
#include "depthwise.hpp"
using namespace cuvil;
struct Sink { float* y; float* visits; int64_t row_stride; };
static void doubled(const void* ctx, const float* tile, int64_t ld, int64_t batch, int64_t m0,
                    int64_t mr, int64_t n0, int64_t nr) {
  const Sink& s = *static_cast<const Sink*>(ctx);
  if (batch || reinterpret_cast<uintptr_t>(tile) % 64 || ld % VL || mr > EPILOGUE_MAX_ROWS ||
      nr > EPILOGUE_MAX_COLS) return;
  for (int64_t i = 0; i < mr; ++i)
    for (int64_t j = 0; j < nr; ++j) {
      const int64_t at = (m0 + i) * s.row_stride + n0 + j;
      s.y[at] = 2 * tile[i * ld + j];
      s.visits[at] += 1;
    }
}
// p: n h w c oh ow oc kh kw sh sw dh dw ph pw groups
template <class Args>
static Args arguments(const int64_t* p, const float* x, const float* w, float* y, void* scratch,
                      void* pool, Epilogue e) {
  return {p[0], p[1], p[2], p[3], p[4], p[5], p[6], int32_t(p[7]), int32_t(p[8]), int32_t(p[9]),
          int32_t(p[10]), int32_t(p[11]), int32_t(p[12]), p[13], p[14], int32_t(p[15]), x, w,
          e.fn ? nullptr : y, e, scratch, static_cast<Pool*>(pool)};
}
EXPORT void conv(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                 void* scratch, void* pool) {
  const Sink sink = {y, visits, p[6]};
  conv2d_f32(arguments<ConvArgs>(p, x, w, y, scratch, pool, {visits ? doubled : nullptr, &sink}));
}
EXPORT void transposed(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                       void* scratch, void* pool) {
  const Sink sink = {y, visits, p[6]};
  conv_transpose2d_f32(arguments<ConvTransposeArgs>(p, x, w, y, scratch, pool,
                                                    {visits ? doubled : nullptr, &sink}));
}
EXPORT void depthwise(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                      void* scratch, void* pool) {
  const Sink sink = {y, visits, p[3]};
  depthwise_conv2d_f32({p[0], p[1], p[2], p[3], p[4], p[5], int32_t(p[7]), int32_t(p[8]),
                        int32_t(p[9]), int32_t(p[10]), int32_t(p[11]), int32_t(p[12]), p[13], p[14],
                        x, w, visits ? nullptr : y, {visits ? doubled : nullptr, &sink}, scratch,
                        static_cast<Pool*>(pool)});
}
EXPORT int64_t conv_scratch(int64_t taps, int64_t channels, int32_t threads) {
  return conv_scratch_bytes(taps, channels, threads);
}
EXPORT int64_t transposed_scratch(int64_t taps, int64_t channels, int32_t threads) {
  return conv_transpose_scratch_bytes(taps, channels, threads);
}
EXPORT int64_t depthwise_scratch(int64_t taps, int64_t channels, int32_t threads) {
  return depthwise_scratch_bytes(taps, channels, threads);
}
"""


@dataclass(frozen=True)
class Shape:
    """One convolution; c and oc count all groups. End pads follow from oh and ow."""

    n: int
    h: int
    w: int
    c: int
    oc: int
    kh: int = 1
    kw: int = 1
    sh: int = 1
    sw: int = 1
    dh: int = 1
    dw: int = 1
    ph: int = 0
    pw: int = 0
    groups: int = 1
    end_h: int = 0
    end_w: int = 0

    def out(self) -> tuple[int, int]:
        oh = (self.h + self.ph + self.end_h - self.dh * (self.kh - 1) - 1) // self.sh + 1
        ow = (self.w + self.pw + self.end_w - self.dw * (self.kw - 1) - 1) // self.sw + 1
        return oh, ow

    def transposed_out(self) -> tuple[int, int]:
        """end_h and end_w count as output padding less end pads."""
        oh = (self.h - 1) * self.sh - self.ph + self.dh * (self.kh - 1) + 1 + self.end_h
        ow = (self.w - 1) * self.sw - self.pw + self.dw * (self.kw - 1) + 1 + self.end_w
        return oh, ow

    def numbers(self, oh: int, ow: int) -> np.ndarray:
        return integers(
            *(self.n, self.h, self.w, self.c, oh, ow, self.oc, self.kh, self.kw, self.sh, self.sw),
            *(self.dh, self.dw, self.ph, self.pw, self.groups),
        )


def conv_reference(x: np.ndarray, w: np.ndarray, s: Shape) -> np.ndarray:
    """x [n,h,w,c] and w [oc, c/groups, kh, kw] in any float type; zero padding is multiplied."""
    oh, ow = s.out()
    tall, wide = (oh - 1) * s.sh + s.dh * (s.kh - 1) + 1, (ow - 1) * s.sw + s.dw * (s.kw - 1) + 1
    padded = np.zeros((s.n, max(tall, s.ph + s.h), max(wide, s.pw + s.w), s.c), x.dtype)
    padded[:, s.ph : s.ph + s.h, s.pw : s.pw + s.w] = x
    y = np.zeros((s.n, oh, ow, s.groups, s.oc // s.groups), x.dtype)
    by_group = w.reshape(s.groups, s.oc // s.groups, s.c // s.groups, s.kh, s.kw)
    for i in range(s.kh):
        for j in range(s.kw):
            rows = slice(i * s.dh, i * s.dh + (oh - 1) * s.sh + 1, s.sh)
            columns = slice(j * s.dw, j * s.dw + (ow - 1) * s.sw + 1, s.sw)
            window = padded[:, rows, columns].reshape(s.n, oh, ow, s.groups, s.c // s.groups)
            y += np.einsum("nhwgc,goc->nhwgo", window, by_group[..., i, j])
    return y.reshape(s.n, oh, ow, s.oc)


def transposed_reference(x: np.ndarray, w: np.ndarray, s: Shape) -> np.ndarray:
    """x [n,h,w,c] and w [c, oc/groups, kh, kw]: scatters every input pixel, then cuts."""
    oh, ow = s.transposed_out()
    full = (s.h - 1) * s.sh + s.dh * (s.kh - 1) + 1, (s.w - 1) * s.sw + s.dw * (s.kw - 1) + 1
    shape = (s.n, max(full[0], s.ph + oh), max(full[1], s.pw + ow), s.groups, s.oc // s.groups)
    y = np.zeros(shape, x.dtype)
    xg = x.reshape(s.n, s.h, s.w, s.groups, s.c // s.groups)
    wg = w.reshape(s.groups, s.c // s.groups, s.oc // s.groups, s.kh, s.kw)
    for i in range(s.kh):
        for j in range(s.kw):
            rows = slice(i * s.dh, i * s.dh + (s.h - 1) * s.sh + 1, s.sh)
            columns = slice(j * s.dw, j * s.dw + (s.w - 1) * s.sw + 1, s.sw)
            y[:, rows, columns] += np.einsum("nhwgc,gco->nhwgo", xg, wg[..., i, j])
    return y.reshape(s.n, *shape[1:3], s.oc)[:, s.ph : s.ph + oh, s.pw : s.pw + ow]


class Convolutions:
    """The compiled wrappers of one machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.library = build(folder, machine, WRAPPERS, CORE)
        self.library.test_pool.restype = ctypes.c_void_p

    def call(
        self,
        kind: str,
        shape: Shape,
        packed: np.ndarray,
        x: np.ndarray,
        out: tuple[int, int],
        epilogue: bool = False,
        threads: int = 1,
    ) -> np.ndarray:
        """y [n, *out, oc]; checks scratch, bounds, and that the epilogue saw each element once."""
        size = getattr(self.library, f"{kind}_scratch")
        size.restype = ctypes.c_int64
        channels = shape.c if kind == "depthwise" else shape.c // shape.groups
        taps = ctypes.c_int64(shape.kh * shape.kw)
        count = size(taps, ctypes.c_int64(channels), ctypes.c_int32(threads)) // 4
        scratch = aligned_zeros(count + 16)
        scratch[:] = np.nan
        total = shape.n * out[0] * out[1] * shape.oc
        y: np.ndarray = np.full(total + 16, 7, np.float32)
        visits = np.zeros(total, np.float32) if epilogue else None
        pool = ctypes.c_void_p(self.library.test_pool() if threads > 1 else None)
        arrays = (shape.numbers(*out), x, packed, y, visits, scratch)
        getattr(self.library, kind)(*map(address, arrays), pool)
        assert np.isnan(scratch[count:]).all(), "wrote past its scratch"
        assert (y[total:] == 7).all(), "wrote past its output"
        if visits is not None:
            assert (visits == 1).all(), "an element was not handed over exactly once"
            y = y / 2
        return y[:total].reshape(shape.n, *out, shape.oc)

    def conv(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False, threads: int = 1
    ) -> np.ndarray:
        packed = pack_conv_weights(w, s.groups, self.machine.nr)
        return self.call("conv", s, packed, x, s.out(), epilogue, threads)

    def depthwise(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False, threads: int = 1
    ) -> np.ndarray:
        return self.call("depthwise", s, pack_depthwise(w), x, s.out(), epilogue, threads)

    def transposed(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False, threads: int = 1
    ) -> np.ndarray:
        packed = pack_conv_transpose(w, s.groups, self.machine.nr, (s.sh, s.sw), (s.dh, s.dw))
        return self.call("transposed", s, packed, x, s.transposed_out(), epilogue, threads)


@pytest.fixture(scope="module", params=runnable(), ids=lambda machine: machine.name)
def native(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Convolutions:
    return Convolutions(tmp_path_factory.mktemp("conv"), request.param)


Reference = Callable[[np.ndarray, np.ndarray, Shape], np.ndarray]


def assert_close(got: np.ndarray, x: np.ndarray, w: np.ndarray, s: Shape, ref: Reference) -> None:
    """Within the bound of a sum of k products in any order (Higham, 2002, section 3.1)."""
    want = ref(x.astype(np.float64), w.astype(np.float64), s)
    size = ref(np.abs(x).astype(np.float64), np.abs(w).astype(np.float64), s)
    assert got.shape == want.shape
    bound = (s.kh * s.kw * s.c // s.groups + 2) * 2.0**-24 * size + 1e-37
    assert (np.abs(got - want) <= bound).all()


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def input_of(s: Shape, rng: np.random.Generator) -> np.ndarray:
    return normal(rng, s.n, s.h, s.w, s.c)


NAMED = {
    "first layer": Shape(1, 23, 29, 3, 40, 7, 7, 2, 2, ph=3, pw=3, end_h=3, end_w=3),
    "first layer 3x3": Shape(2, 17, 16, 3, 32, 3, 3, 2, 2, ph=0, pw=1, end_h=1, end_w=0),
    "one channel": Shape(1, 12, 9, 1, 5, 3, 3, ph=1, pw=1, end_h=1, end_w=1),
    "3x3": Shape(2, 15, 14, 32, 33, 3, 3, ph=1, pw=1, end_h=1, end_w=1),
    "1x1": Shape(2, 7, 7, 40, 70),
    "1x1 stride 2": Shape(2, 9, 8, 24, 16, sh=2, sw=2),
    "1x1 a cache period apart": Shape(1, 8, 8, 1024, 20, sh=2, sw=2),
    "1x1 padded": Shape(1, 5, 5, 20, 20, ph=1, pw=2, end_h=1, end_w=3),
    "dilated": Shape(1, 20, 21, 8, 9, 3, 3, dh=2, dw=3, ph=2, pw=3, end_h=2, end_w=3),
    "grouped": Shape(2, 10, 11, 24, 36, 3, 3, ph=1, pw=1, end_h=1, end_w=1, groups=4),
    "grouped 1x1": Shape(1, 6, 6, 64, 128, groups=2),
    "one channel a group": Shape(1, 9, 9, 6, 12, 3, 3, groups=6),
    "1-D": Shape(3, 1, 50, 16, 20, 1, 5, sw=2, pw=2, end_w=2),
    "1-D dilated": Shape(1, 1, 64, 4, 20, 1, 3, dw=8, pw=16),
    "tall kernel": Shape(1, 40, 3, 5, 6, 9, 1, sh=3, ph=4, end_h=4),
    "pads wider than the input": Shape(1, 2, 2, 5, 4, 3, 3, ph=4, pw=5, end_h=4, end_w=5),
    "no images": Shape(0, 5, 5, 3, 4, 3, 3),
    "no channels": Shape(1, 5, 5, 0, 4, 3, 3),
    "no outputs": Shape(1, 5, 5, 3, 0, 3, 3),
}


@pytest.mark.parametrize("name", NAMED)
def test_conv_of_every_kind(native: Convolutions, name: str) -> None:
    s, rng = NAMED[name], np.random.default_rng(5)
    x, w = input_of(s, rng), normal(rng, s.oc, s.c // s.groups, s.kh, s.kw)
    for epilogue, threads in [(False, 1), (True, 2)]:
        got = native.conv(s, x, w, epilogue=epilogue, threads=threads)
        assert_close(got, x, w, s, conv_reference)


def generated(rng: np.random.Generator, groups: int) -> Shape:
    """A random window that fits its padded input at least once."""
    kh, kw, sh, sw, dh, dw = (int(v) for v in rng.integers(1, (6, 6, 4, 4, 4, 4)))
    ph, pw, end_h, end_w = (int(v) for v in rng.integers(0, 4, 4))
    h = int(rng.integers(1, 18)) + max(0, dh * (kh - 1) - ph - end_h)
    w = int(rng.integers(1, 40)) + max(0, dw * (kw - 1) - pw - end_w)
    c, oc = (groups * int(v) for v in rng.integers(1, (40, 70)))
    n = int(rng.integers(1, 3))
    return Shape(n, h, w, c, oc, kh, kw, sh, sw, dh, dw, ph, pw, groups, end_h, end_w)


@pytest.mark.parametrize("seed", range(60))
def test_conv_of_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = generated(rng, int(rng.choice([1, 1, 1, 2, 3])))
    x, w = input_of(s, rng), normal(rng, s.oc, s.c // s.groups, s.kh, s.kw)
    got = native.conv(s, x, w, epilogue=bool(seed % 2), threads=1 + seed % 3 % 2)
    assert_close(got, x, w, s, conv_reference)


@pytest.mark.parametrize("seed", range(60))
def test_depthwise_of_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = generated(rng, 1)
    if seed % 3:  # the specialised windows
        k, stride = int(rng.choice([3, 5])), int(rng.choice([1, 2]))
        s = replace(s, kh=k, kw=k, sh=stride, sw=stride, dh=1, dw=1, h=s.h + k, w=s.w + k)
    if seed % 7 == 0:
        s = replace(s, w=1, kw=1, pw=0, end_w=0, h=s.h + 20)
    channels = int(rng.choice([1, 3, 8, 15, 16, 17, 33, 64, 129, 150, 257, 300]))
    s = replace(s, c=channels, oc=channels, groups=channels)
    x, w = input_of(s, rng), normal(rng, s.c, 1, s.kh, s.kw)
    got = native.depthwise(s, x, w, epilogue=bool(seed % 2), threads=1 + seed % 3 % 2)
    assert_close(got, x, w, s, conv_reference)


@pytest.mark.parametrize("width", range(1, 18))
def test_depthwise_row_remainders(native: Convolutions, width: int) -> None:
    rng = np.random.default_rng(width)
    s = Shape(1, 4, width, 32, 32, 3, 3, ph=1, pw=1, groups=32, end_h=1, end_w=1)
    x, w = input_of(s, rng), normal(rng, 32, 1, 3, 3)
    assert_close(native.depthwise(s, x, w), x, w, s, conv_reference)


@pytest.mark.parametrize("seed", range(60))
def test_transposed_of_generated_shapes(native: Convolutions, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = generated(rng, int(rng.choice([1, 1, 2, 3])))
    if seed % 5 == 0:
        s = replace(s, sw=int(rng.integers(5, 20)))
    s = replace(s, end_h=int(rng.integers(0, 3)), end_w=int(rng.integers(0, 3)))
    oh, ow = s.transposed_out()
    s = replace(s, ph=s.ph if oh > 0 else 0, pw=s.pw if ow > 0 else 0)
    x, w = input_of(s, rng), normal(rng, s.c, s.oc // s.groups, s.kh, s.kw)
    got = native.transposed(s, x, w, epilogue=bool(seed % 2), threads=1 + seed % 3 % 2)
    assert_close(got, x, w, s, transposed_reference)


def test_transposed_with_stride_wider_than_kernel_leaves_zeros(native: Convolutions) -> None:
    s = Shape(1, 3, 4, 5, 6, 1, 1, sh=3, sw=2)
    x, w = np.ones((1, 3, 4, 5), np.float32), np.ones((5, 6, 1, 1), np.float32)
    y = native.transposed(s, x, w)
    assert (y[:, ::3, ::2] == 5).all() and y.sum() == 5 * 6 * 12


def test_padding_is_multiplied_as_zeros(native: Convolutions) -> None:
    """Inf weights on padding make NaN, in the same places as in the reference."""
    for c, kind in [(3, "conv"), (20, "conv"), (32, "depthwise")]:
        groups = c if kind == "depthwise" else 1
        s = Shape(1, 5, 9, c, c, 3, 3, ph=1, pw=1, groups=groups, end_h=1, end_w=1)
        x, w = np.ones((1, 5, 9, c), np.float32), np.ones((c, c // groups, 3, 3), np.float32)
        w[1, 0, 0, 2] = np.inf
        got = getattr(native, kind)(s, x, w)
        with np.errstate(invalid="ignore"):
            want = conv_reference(x, w, s)
        assert np.isnan(want).any() and np.isinf(want).any()
        assert (np.isnan(got) == np.isnan(want)).all()
        assert (np.isinf(got) == np.isinf(want)).all()


def test_nan_pixel_reaches_only_its_windows(native: Convolutions) -> None:
    s = Shape(1, 9, 9, 17, 19, 3, 3, ph=1, pw=1, end_h=1, end_w=1)
    rng = np.random.default_rng(6)
    x, w = input_of(s, rng), normal(rng, 19, 17, 3, 3)
    x[0, 4, 0, 16] = np.nan
    bad = np.isnan(native.conv(s, x, w)).all(axis=-1)[0]
    assert bad[3:6, 0:2].all() and bad.sum() == 6


def test_packing_refuses_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="groups"):
        pack_conv_weights(np.zeros((5, 1, 3, 3), np.float32), 2, 8)
    with pytest.raises(ValueError, match="depthwise"):
        pack_depthwise(np.zeros((4, 2, 3, 3), np.float32))
    with pytest.raises(ValueError, match="groups"):
        pack_conv_transpose(np.zeros((5, 1, 3, 3), np.float32), 2, 8, (1, 1))


@pytest.mark.parametrize("machine", [NEON, WASM], ids=lambda machine: machine.name)
@pytest.mark.parametrize("name", CORE)
def test_compiles_for_other_machines(tmp_path: Path, machine: Machine, name: str) -> None:
    compile_object(NATIVE / name, tmp_path / "out.o", machine)
    assert (tmp_path / "out.o").stat().st_size > 500


def test_library_of_all_kernels_is_small(native: Convolutions) -> None:
    assert Path(native.library._name).stat().st_size < 150_000
