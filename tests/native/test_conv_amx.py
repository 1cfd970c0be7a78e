"""conv_bf16 where segments of lines are read in place, against NumPy in float64."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace

import numpy as np
import pytest

from cuvil.codegen.packing_bf16 import pack_conv_bf16

from .conv_harness import Shape, conv_reference
from .harness import Machine, address, aligned_zeros, build
from .test_gemm_bf16 import BF16, CORE, WRAPPERS, assert_near, machines, rounded

CODE = (
    WRAPPERS
    + r"""
#include "conv_amx.hpp"
// Whether segments were read in place.
EXPORT int in_place(const int64_t* p, const float* x, const float* w, float* y, void* scratch,
                    void* pool, void* copies) {
  return conv_amx(arguments(p, x, w, y, scratch, pool, copies));
}
// min(max(sum + bias + residual, -1), 1), also as bf16 into half.
EXPORT void finished(const int64_t* p, const float* x, const float* w, float* y, void* scratch,
                     void* pool, void* copies, const float* bias, const float* residual,
                     uint16_t* half) {
  ConvArgs a = arguments(p, x, w, y, scratch, pool, copies);
  a.finish = {bias, residual, -1, 1, true, false, half, nullptr};
  conv_bf16(a);
}
"""
)


class Convolution:
    """One convolution's arguments; what lies before and behind x and the scratch memory is NaN."""

    def __init__(self, library: ctypes.CDLL, s: Shape, x: np.ndarray, w: np.ndarray) -> None:
        self.library, self.s, out = library, s, s.out()
        sizes = replace(s, c=s.c // 2).numbers(out)
        taps, pairs, threads = math.prod(s.kernel), s.c // s.groups // 2, 2
        scratch = library.scratch_bytes(*map(ctypes.c_int64, (taps, s.kw, pairs)), threads)
        copies = library.copies_bytes(ctypes.c_int64(taps * pairs), threads)
        self.guarded = np.full(x.size + 4096, np.nan, BF16)
        inner = self.guarded[2048 : 2048 + x.size]
        inner[:] = x.reshape(-1)
        self.rooms = [aligned_zeros(size // 4 + 16) for size in (scratch, copies)]
        for room in self.rooms:
            room[:] = np.nan
        self.y = np.zeros((s.n, *out, s.oc), np.float32)
        self.sizes = np.append(sizes, np.int64(0))
        self.arrays = [self.sizes, inner, pack_conv_bf16(w, s.groups, 32), self.y]

    def _arguments(self, threads: int) -> list[ctypes.c_void_p]:
        pool = ctypes.c_void_p(self.library.test_pool() if threads > 1 else None)
        scratch, copies = map(address, self.rooms)
        return [*map(address, self.arrays), scratch, pool, copies]

    def run(self, threads: int, epilogue: bool = False) -> np.ndarray:
        self.y[:] = 0
        self.sizes[-1] = epilogue
        self.library.conv(*self._arguments(threads))
        for room in self.rooms:
            assert np.isnan(room[-16:]).all(), "wrote past its scratch memory"
        return self.y

    def in_place(self) -> bool:
        return bool(self.library.in_place(*self._arguments(1)))

    def finished(self, bias: np.ndarray, residual: np.ndarray, half: np.ndarray) -> np.ndarray:
        more = map(address, (bias, residual, half))
        self.library.finished(*self._arguments(2), *more)
        return self.y


def _with_units() -> list[Machine]:
    return [machine for machine in machines() if machine.name == "amx"]


@pytest.fixture(scope="module", params=_with_units(), ids=lambda machine: machine.name)
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    found = build(tmp_path_factory.mktemp("conv_amx"), request.param, CODE, CORE)
    found.test_pool.restype = ctypes.c_void_p
    found.scratch_bytes.restype = found.copies_bytes.restype = ctypes.c_int64
    return found


def check(library: ctypes.CDLL, s: Shape, rng: np.random.Generator) -> Convolution:
    x, w = rounded(rng, s.n, *s.input, s.c), rounded(rng, *s.weights(rng).shape)
    want = conv_reference(x.astype(np.float64), w.astype(np.float64), s)
    size = conv_reference(np.abs(x).astype(np.float64), np.abs(w).astype(np.float64), s)
    case = Convolution(library, s, x, w)
    for threads, epilogue in ((1, False), (2, True), (2, False)):
        got = case.run(threads, epilogue)
        assert_near(got, want, size, math.prod(s.kernel) * s.c // s.groups)
    return case


def padded(
    n: int, h: int, w: int, c: int, oc: int, k: int = 3, stride: int = 1, dilation: int = 1
) -> Shape:
    pad = (k - 1) * dilation // 2
    return Shape(n, h, w, c, oc, k, k, stride, stride, dilation, dilation, pad, pad, 1, pad, pad)


IN_PLACE = {
    "whole steps of channels": padded(1, 12, 40, 64, 48),
    "fewer channels than a step": padded(2, 9, 33, 16, 16),
    "a line of the kernel in one step": padded(1, 30, 31, 4, 64, 7, 2),
    "steps that begin within a tap": padded(1, 9, 21, 40, 40),
    "lines shorter than a tile": padded(2, 7, 7, 96, 33),
    "pixels that share sets of a cache": padded(2, 14, 14, 256, 70),
    "pixels too long for a cache": padded(1, 9, 20, 512, 24),
    "pixels that share sets, dilated": padded(1, 17, 28, 256, 24, 3, 1, 2),
    "1x1, two steps": padded(2, 9, 20, 48, 33, 1),
    "1x1 stride 2": padded(1, 20, 56, 64, 40, 1, 2),
    "dilated": padded(1, 25, 26, 32, 20, 3, 1, 3),
    "dilated, few channels": padded(1, 25, 26, 24, 20, 3, 1, 2),
    "1-D in several groups": Shape(1, 1, 6000, 64, 8, 1, 3, pw=1, end_w=1),
    "1-D in several copied groups": Shape(2, 1, 1300, 256, 8, 1, 3, pw=2),
    "3-D": Shape(2, 6, 18, 32, 20, 3, 3, ph=1, pw=1, end_h=1, end_w=1, d=5, kd=3, pd=1, end_d=1),
    "3-D in several groups": Shape(1, 40, 40, 64, 4, 3, 3, 1, 1, 1, 1, 1, 1, d=3, kd=3, pd=2),
    "kernels wider than the image": Shape(1, 2, 4, 32, 40, 5, 5, ph=4, pw=4, end_h=4, end_w=4),
    "pixels that no window reads": Shape(1, 29, 95, 32, 40, 2, 2, 3, 3),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_segments_are_read_in_place(library: ctypes.CDLL, name: str) -> None:
    rng = np.random.default_rng(4)
    assert check(library, IN_PLACE[name], rng).in_place()


OTHERWISE = {
    "lines of one pixel": padded(1, 20, 1, 128, 1),
    "no common step of channels and taps": padded(1, 9, 21, 34, 40),
    "groups": replace(padded(1, 9, 33, 64, 16), groups=2),
    "windows larger than the copies": padded(1, 9, 640, 256, 8, 3, 1, 300),
    "kernel lines without a step": Shape(1, 20, 20, 2, 40, 17, 17, ph=8, pw=8, end_h=8, end_w=8),
    "strides that share sets of a cache": padded(1, 17, 28, 128, 24, 3, 2),
    "copies of single pixels": padded(1, 20, 56, 256, 40, 1, 2),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_not_read_in_place(library: ctypes.CDLL, name: str) -> None:
    assert not check(library, OTHERWISE[name], np.random.default_rng(4)).in_place()


@pytest.mark.parametrize("seed", range(60))
def test_generated_convolutions(library: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def some(*choices: int) -> int:
        return int(rng.choice(choices))

    kernel = [some(1, 1, 2, 3), some(1, 2, 3, 5), some(1, 2, 3, 4, 7)]
    strides, dilations = ([some(1, 1, 2, 3) for _ in range(3)] for _ in range(2))
    reach = [(k - 1) * e + 1 for k, e in zip(kernel, dilations, strict=True)]
    low, high = ([int(rng.integers(0, r + 1)) for r in reach] for _ in range(2))
    size = [
        max(int(rng.integers(1, most)), r - p - q)
        for most, r, p, q in zip((4, 20, 50), reach, low, high, strict=True)
    ]
    kd, kh, kw = kernel
    s = Shape(
        some(1, 1, 2, 3), size[1], size[2], some(2, 4, 6, 16, 24, 32, 34, 64, 96, 256),
        some(1, 8, 16, 17, 32, 33, 70), kh, kw, strides[1], strides[2], dilations[1],
        dilations[2], low[1], low[2], 1, high[1], high[2], size[0] if kd > 1 else 1, kd,
        strides[0], dilations[0], low[0] if kd > 1 else 0, high[0] if kd > 1 else 0,
    )  # fmt: skip
    check(library, s, rng)


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_not_finite_stays_in_its_windows(library: ctypes.CDLL, name: str) -> None:
    """At the corners and within; a weight of infinity makes NaN of the padding it meets."""
    s, rng = IN_PLACE[name], np.random.default_rng(8)
    x = np.ones((s.n, *s.input, s.c), BF16)
    w = np.ones(s.weights(rng).shape, BF16)
    x[0, 0, 0, 0, 0], x[-1, -1, -1, -1, -1] = np.nan, np.inf
    x[-1, -1, s.h // 2, s.w // 2, s.c // 2] = -np.inf
    w[-1, 0, 0, 0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        want = conv_reference(x.astype(np.float64), w.astype(np.float64), s)
    got = Convolution(library, s, x, w).run(2)
    np.testing.assert_array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize("name", ["fewer channels than a step", "lines shorter than a tile"])
def test_finished_in_registers(library: ctypes.CDLL, name: str) -> None:
    """Each pixel and channel with its own bias and residual; whole numbers, so all is exact."""
    s, rng = IN_PLACE[name], np.random.default_rng(6)
    x = rng.integers(-2, 3, (s.n, *s.input, s.c)).astype(BF16)
    w = rng.integers(-2, 3, s.weights(rng).shape).astype(BF16)
    sums = conv_reference(x.astype(np.float64), w.astype(np.float64), s)
    bias = rng.integers(-9, 9, s.oc).astype(np.float32)
    residual = rng.integers(-9, 9, sums.shape) - np.round(sums * 7 / 8)
    half = np.zeros(sums.shape, BF16)
    got = Convolution(library, s, x, w).finished(bias, residual.astype(np.float32), half)
    want = np.clip(sums + bias + residual, -1, 1)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(half.astype(np.float64), want)
