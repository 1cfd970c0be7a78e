"""Compiled convolutions of one machine, and their definition in plain NumPy."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cuvil.codegen.packing import (
    pack_conv_transpose,
    pack_conv_weights,
    pack_depthwise,
    pack_winograd,
)
from cuvil.codegen.packing_bf16 import pack_conv_transpose_bf16, pack_winograd_bf16

from .harness import Machine, address, aligned_zeros, build, integers

CORE = (
    "core_tile.cpp",
    "core_gemm.cpp",
    "core_conv.cpp",
    "core_depthwise.cpp",
    "core_conv_transpose.cpp",
    "core_winograd.cpp",
)
CORE_BF16 = ("core_tile_bf16.cpp", "core_winograd_bf16.cpp", "core_conv_transpose_bf16.cpp")
# An epilogue that doubles what it gets and counts its visits of each element.
SINK = r"""
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
"""
WRAPPERS = (
    r"""
#include "conv.hpp"
#include "conv_transpose.hpp"
#include "depthwise.hpp"
#include "winograd.hpp"
using namespace cuvil;
"""
    + SINK
    + r"""
// p: n c oc groups, then for each axis d, h, w: input, output, kernel, stride, dilation, pad.
template <class Args>
static Args flat_window(const int64_t* p) {
  const int64_t *v = p + 10, *u = p + 16;
  Args a = {};
  a.n = p[0], a.c = p[1];
  a.h = v[0], a.oh = v[1], a.kh = v[2], a.sh = v[3], a.dh = v[4], a.ph = v[5];
  a.w = u[0], a.ow = u[1], a.kw = u[2], a.sw = u[3], a.dw = u[4], a.pw = u[5];
  return a;
}
template <class Args>
static Args window(const int64_t* p) {
  Args a = flat_window<Args>(p);
  const int64_t* v = p + 4;
  a.d = v[0], a.od = v[1], a.kd = v[2], a.sd = v[3], a.dd = v[4], a.pd = v[5];
  return a;
}
template <class Args>
static Args bound(Args a, const float* x, const float* w, float* y, const Sink& sink, void* scratch,
                  void* pool) {
  a.x = x, a.w_packed = w, a.scratch = scratch, a.pool = static_cast<Pool*>(pool);
  if (sink.visits) a.epilogue = {doubled, &sink};
  else a.y = y;
  return a;
}
template <class Args>
static Args grouped(Args a, const int64_t* p) {
  a.oc = p[2], a.groups = p[3];
  return a;
}
EXPORT void conv(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                 void* scratch, void* pool) {
  const Sink sink = {y, visits, p[2]};
  conv_f32(bound(grouped(window<ConvArgs>(p), p), x, w, y, sink, scratch, pool));
}
EXPORT void transposed(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                       void* scratch, void* pool) {
  const Sink sink = {y, visits, p[2]};
  conv_transpose2d_f32(
      bound(grouped(flat_window<ConvTransposeArgs>(p), p), x, w, y, sink, scratch, pool));
}
EXPORT void depthwise(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                      void* scratch, void* pool) {
  const Sink sink = {y, visits, p[1]};
  depthwise_conv_f32(bound(window<DepthwiseArgs>(p), x, w, y, sink, scratch, pool));
}
template <void (*RUN)(const WinogradArgs&)>
static void winograd(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                     void* scratch, void* pool) {
  const Sink sink = {y, visits, p[2]};
  const ConvArgs a = flat_window<ConvArgs>(p);
  WinogradArgs b = {};
  b.n = a.n, b.h = a.h, b.w = a.w, b.c = a.c;
  b.oh = a.oh, b.ow = a.ow, b.oc = p[2], b.ph = a.ph, b.pw = a.pw;
  RUN(bound(b, x, w, y, sink, scratch, pool));
}
EXPORT void winograd_2(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                       void* scratch, void* pool) {
  winograd<winograd_2_f32>(p, x, w, y, visits, scratch, pool);
}
EXPORT void winograd_4(const int64_t* p, const float* x, const float* w, float* y, float* visits,
                       void* scratch, void* pool) {
  winograd<winograd_4_f32>(p, x, w, y, visits, scratch, pool);
}
EXPORT int64_t winograd_2_scratch(int64_t, int64_t, int64_t channels, int32_t threads) {
  return winograd_scratch_bytes(2, channels, threads);
}
EXPORT int64_t winograd_4_scratch(int64_t, int64_t, int64_t channels, int32_t threads) {
  return winograd_scratch_bytes(4, channels, threads);
}
EXPORT int64_t conv_scratch(int64_t taps, int64_t kw, int64_t channels, int32_t threads) {
  return conv_scratch_bytes(taps, kw, channels, threads);
}
EXPORT int64_t transposed_scratch(int64_t taps, int64_t, int64_t channels, int32_t threads) {
  return conv_transpose_scratch_bytes(taps, channels, threads);
}
EXPORT int64_t depthwise_scratch(int64_t taps, int64_t, int64_t channels, int32_t threads) {
  return depthwise_scratch_bytes(taps, channels, threads);
}
"""
)

WRAPPERS_BF16 = r"""
#include "conv_transpose_bf16.hpp"
#include "winograd_bf16.hpp"
EXPORT void transposed_bf16(const int64_t* p, const float* x, const float* w, float* y,
                            float* visits, void* scratch, void* pool) {
  const Sink sink = {y, visits, p[2]};
  ConvTransposeArgs a =
      bound(grouped(flat_window<ConvTransposeArgs>(p), p), x, w, y, sink, scratch, pool);
  a.c /= 2;
  conv_transpose2d_bf16(a);
}
EXPORT int64_t transposed_bf16_scratch(int64_t taps, int64_t, int64_t channels, int32_t threads) {
  return conv_transpose_scratch_bytes(taps, channels / 2, threads);
}
EXPORT void winograd_2_bf16(const int64_t* p, const float* x, const float* w, float* y,
                            float* visits, void* scratch, void* pool) {
  winograd<cuvil::winograd_2_bf16>(p, x, w, y, visits, scratch, pool);
}
EXPORT void winograd_4_bf16(const int64_t* p, const float* x, const float* w, float* y,
                            float* visits, void* scratch, void* pool) {
  winograd<cuvil::winograd_4_bf16>(p, x, w, y, visits, scratch, pool);
}
EXPORT int64_t winograd_2_bf16_scratch(int64_t, int64_t, int64_t channels, int32_t threads) {
  return winograd_scratch_bytes(2, (channels + 1) / 2, threads);
}
EXPORT int64_t winograd_4_bf16_scratch(int64_t, int64_t, int64_t channels, int32_t threads) {
  return winograd_scratch_bytes(4, channels, threads);
}
"""


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    """One convolution; c and oc count all groups. End pads follow from the output's size."""

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
    d: int = 1
    kd: int = 1
    sd: int = 1
    dd: int = 1
    pd: int = 0
    end_d: int = 0

    @property
    def input(self) -> Sizes:
        return self.d, self.h, self.w

    @property
    def kernel(self) -> Sizes:
        return self.kd, self.kh, self.kw

    @property
    def strides(self) -> Sizes:
        return self.sd, self.sh, self.sw

    @property
    def dilations(self) -> Sizes:
        return self.dd, self.dh, self.dw

    @property
    def pads(self) -> Sizes:
        return self.pd, self.ph, self.pw

    def out(self) -> Sizes:
        ends = self.end_d, self.end_h, self.end_w
        axes = zip(
            self.input, self.pads, ends, self.kernel, self.dilations, self.strides, strict=True
        )
        d, h, w = ((i + p + e - t * (k - 1) - 1) // s + 1 for i, p, e, k, t, s in axes)
        return d, h, w

    def transposed_out(self) -> Sizes:
        """Of an image; end_h and end_w count as output padding less end pads."""
        oh = (self.h - 1) * self.sh - self.ph + self.dh * (self.kh - 1) + 1 + self.end_h
        ow = (self.w - 1) * self.sw - self.pw + self.dw * (self.kw - 1) + 1 + self.end_w
        return 1, oh, ow

    def numbers(self, out: Sizes) -> np.ndarray:
        axes = zip(
            self.input, out, self.kernel, self.strides, self.dilations, self.pads, strict=True
        )
        return integers(self.n, self.c, self.oc, self.groups, *(v for axis in axes for v in axis))

    def weights(self, rng: np.random.Generator) -> np.ndarray:
        return normal(rng, self.oc, self.c // self.groups, *self.kernel)


def conv_reference(x: np.ndarray, w: np.ndarray, s: Shape) -> np.ndarray:
    """x [n,d,h,w,c] and w [oc, c/groups, *kernel] in any float type; zero padding is multiplied."""
    out, begin, stride = s.out(), s.pads, s.strides
    reach = [
        (o - 1) * t + e * (k - 1) + 1
        for o, t, e, k in zip(out, stride, s.dilations, s.kernel, strict=True)
    ]
    room = [max(r, p + i) for r, p, i in zip(reach, begin, s.input, strict=True)]
    padded = np.zeros((s.n, *room, s.c), x.dtype)
    places = (slice(p, p + i) for p, i in zip(begin, s.input, strict=True))
    padded[(slice(None), *places)] = x
    y = np.zeros((s.n, *out, s.groups, s.oc // s.groups), x.dtype)
    by_group = w.reshape(s.groups, s.oc // s.groups, s.c // s.groups, *s.kernel)
    for tap in np.ndindex(*s.kernel):
        first = [t * e for t, e in zip(tap, s.dilations, strict=True)]
        seen = (
            slice(f, f + (o - 1) * t + 1, t) for f, o, t in zip(first, out, stride, strict=True)
        )
        window = padded[(slice(None), *seen)].reshape(s.n, *out, s.groups, s.c // s.groups)
        y += np.einsum("ndhwgc,goc->ndhwgo", window, by_group[(..., *tap)])
    return y.reshape(s.n, *out, s.oc)


def transposed_reference(x: np.ndarray, w: np.ndarray, s: Shape) -> np.ndarray:
    """x [n,1,h,w,c] and w [c, oc/groups, kh, kw]: scatters every input pixel, then cuts."""
    _, oh, ow = s.transposed_out()
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
    cut = y.reshape(s.n, *shape[1:3], s.oc)[:, s.ph : s.ph + oh, s.pw : s.pw + ow]
    return cut.reshape(s.n, 1, oh, ow, s.oc)


class Convolutions:
    """The compiled wrappers of one machine."""

    wrappers, core = WRAPPERS, CORE

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.library = build(folder, machine, self.wrappers, self.core)
        self.library.test_pool.restype = ctypes.c_void_p

    def call(
        self,
        kind: str,
        shape: Shape,
        packed: np.ndarray,
        x: np.ndarray,
        out: Sizes,
        epilogue: bool = False,
        threads: int = 1,
    ) -> np.ndarray:
        """y [n, *out, oc]; checks scratch, bounds, and that the epilogue saw each element once."""
        channels = shape.c if kind == "depthwise" else shape.c // shape.groups
        count = self.scratch_bytes(kind, shape.kernel, channels, threads) // 4
        scratch = aligned_zeros(count + 16)
        scratch[:] = np.nan
        total = shape.n * math.prod(out) * shape.oc
        y: np.ndarray = np.full(total + 16, 7, np.float32)
        visits = np.zeros(total, np.float32) if epilogue else None
        pool = ctypes.c_void_p(self.library.test_pool() if threads > 1 else None)
        arrays = (shape.numbers(out), x, packed, y, visits, scratch)
        getattr(self.library, kind)(*map(address, arrays), pool)
        assert np.isnan(scratch[count:]).all(), "wrote past its scratch"
        assert (y[total:] == 7).all(), "wrote past its output"
        if visits is not None:
            assert (visits == 1).all(), "an element was not handed over exactly once"
            y = y / 2
        return y[:total].reshape(shape.n, *out, shape.oc)

    def scratch_bytes(self, kind: str, kernel: Sizes, channels: int, threads: int) -> int:
        """What the header of ``kind`` says; channels are those of a group."""
        size = getattr(self.library, f"{kind}_scratch")
        size.restype = ctypes.c_int64
        sizes = (math.prod(kernel), kernel[-1], channels)
        return int(size(*map(ctypes.c_int64, sizes), ctypes.c_int32(threads)))

    def conv(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False, threads: int = 1
    ) -> np.ndarray:
        packed = pack_conv_weights(w, s.groups, self.machine.nr)
        return self.call("conv", s, packed, x, s.out(), epilogue, threads)

    def winograd(
        self, m: int, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False,
        threads: int = 1,
    ) -> np.ndarray:  # fmt: skip
        packed = pack_winograd(w[:, :, 0], m, self.machine.nr)
        return self.call(f"winograd_{m}", s, packed, x, s.out(), epilogue, threads)

    def depthwise(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False, threads: int = 1
    ) -> np.ndarray:
        return self.call("depthwise", s, pack_depthwise(w), x, s.out(), epilogue, threads)

    def transposed(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False, threads: int = 1
    ) -> np.ndarray:
        packed = pack_conv_transpose(w, s.groups, self.machine.nr, (s.sh, s.sw), (s.dh, s.dw))
        return self.call("transposed", s, packed, x, s.transposed_out(), epilogue, threads)


class PairConvolutions(Convolutions):
    """Those of bf16 too."""

    wrappers, core = WRAPPERS + WRAPPERS_BF16, (*CORE, *CORE_BF16)

    def winograd_bf16(
        self, m: int, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False,
        threads: int = 1,
    ) -> np.ndarray:  # fmt: skip
        pack = pack_winograd_bf16 if m == 2 else pack_winograd
        packed = pack(w[:, :, 0], m, self.machine.nr)
        return self.call(f"winograd_{m}_bf16", s, packed, x, s.out(), epilogue, threads)

    def transposed_bf16(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool = False, threads: int = 1
    ) -> np.ndarray:
        places = (s.sh, s.sw), (s.dh, s.dw)
        packed = pack_conv_transpose_bf16(w, s.groups, self.machine.nr, *places)
        return self.call("transposed_bf16", s, packed, x, s.transposed_out(), epilogue, threads)
