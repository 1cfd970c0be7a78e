"""gemm_bf16 and conv_bf16 against NumPy in float64, of operands that bf16 holds."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cuvil.codegen.kernel import THREADS
from cuvil.codegen.native_scratch import amx_scratch
from cuvil.codegen.packing_bf16 import pack_conv_bf16, pack_gemm_bf16
from cuvil.sym.expr import evaluate

from .conv_harness import Shape, conv_reference
from .harness import NATIVE as FOLDER
from .harness import (
    NEON,
    SSE,
    WASM,
    Machine,
    address,
    aligned_zeros,
    build,
    compile_object,
    integers,
    runnable,
)
from .harness import _cpu_flags as cpu_flags

CORE = (
    "core_tile.cpp", "core_tile_bf16.cpp", "core_gemm.cpp", "core_gemm_bf16.cpp",
    "core_conv_amx.cpp", "core_conv_bf16.cpp", "core_tile_amx.cpp",
)  # fmt: skip
WRAPPERS = r"""
#include "contract_amx.hpp"
#include "conv_bf16.hpp"
#include "gemm_bf16.hpp"
using namespace cuvil;
struct Sink { float* c; int64_t batch_stride, row_stride; };
static void added(const void* ctx, const float* tile, int64_t ld, int64_t batch, int64_t m0,
                  int64_t mr, int64_t n0, int64_t nr) {
  const Sink& s = *static_cast<const Sink*>(ctx);
  for (int64_t i = 0; i < mr; ++i)
    for (int64_t j = 0; j < nr; ++j)
      s.c[batch * s.batch_stride + (m0 + i) * s.row_stride + n0 + j] += tile[i * ld + j];
}
// p: batch m n k a_batch a_row b_batch c_batch c_row epilogue
EXPORT void gemm(const int64_t* p, const uint16_t* a, const uint16_t* b, float* c, void* pool,
                 void* copies) {
  const Sink sink = {c, p[7], p[8]};
  const Epilogue e = {p[9] ? added : nullptr, &sink};
  gemm_bf16({p[0], p[1], p[2], p[3], a, p[4], p[5], b, p[6], p[9] ? nullptr : c, p[7], p[8], e,
             static_cast<Pool*>(pool), {}, copies});
}
// The product as bf16 into half, and as f32 into c unless that is null.
EXPORT void gemm_half(const int64_t* p, const uint16_t* a, const uint16_t* b, float* c,
                      uint16_t* half, void* copies) {
  Finish finish = {};
  finish.half = half;
  finish.half_only = c == nullptr;
  gemm_bf16({p[0], p[1], p[2], p[3], a, p[4], p[5], b, p[6], c ? c : (float*)half, p[7], p[8], {},
             nullptr, finish, copies});
}
// p: n c oc groups, then for each axis d, h, w: input, output, kernel, stride, dilation, pad.
// c counts pairs.
static ConvArgs arguments(const int64_t* p, const float* x, const float* w, float* y,
                          void* scratch, void* pool, void* copies) {
  const int64_t *t = p + 4, *v = p + 10, *u = p + 16;
  ConvArgs a = {};
  a.n = p[0], a.c = p[1], a.oc = p[2], a.groups = p[3];
  a.d = t[0], a.od = t[1], a.kd = t[2], a.sd = t[3], a.dd = t[4], a.pd = t[5];
  a.h = v[0], a.oh = v[1], a.kh = v[2], a.sh = v[3], a.dh = v[4], a.ph = v[5];
  a.w = u[0], a.ow = u[1], a.kw = u[2], a.sw = u[3], a.dw = u[4], a.pw = u[5];
  a.x = x, a.w_packed = w, a.y = y, a.scratch = scratch, a.copies = copies;
  a.pool = static_cast<Pool*>(pool);
  return a;
}
// p: as above, and epilogue.
EXPORT void conv(const int64_t* p, const float* x, const float* w, float* y, void* scratch,
                 void* pool, void* copies) {
  const Sink sink = {y, 0, p[2]};
  ConvArgs a = arguments(p, x, w, nullptr, scratch, pool, copies);
  if (p[22]) a.epilogue = {added, &sink};
  else a.y = y;
  conv_bf16(a);
}
EXPORT int64_t scratch_bytes(int64_t taps, int64_t kw, int64_t pairs, int32_t threads) {
  return conv_scratch_bytes(taps, kw, pairs, threads);
}
EXPORT int64_t copies_bytes(int64_t pairs, int32_t threads) {
  return amx_scratch_bytes(pairs, threads);
}
"""
BF16 = ml_dtypes.bfloat16


def machines() -> list[Machine]:
    """Those of the harness, and those with a dot product of pairs and with a matrix unit."""
    flags = cpu_flags()
    found = [*runnable(), SSE] if "sse2" in flags else runnable()
    if {"avx512_bf16", "avx512bw", "avx512vl", "avx512dq"} <= flags:
        wide = ("-mcpu=x86_64_v4+avx512bf16-prefer_256_bit",)
        found.append(Machine("avx512bf16", 64, 14, 32, wide))
    if {"avx512_bf16", "amx_tile", "amx_bf16"} <= flags:
        unit = ("-mcpu=x86_64_v4+avx512bf16+amx_tile+amx_bf16-prefer_256_bit",)
        found.append(Machine("amx", 64, 14, 32, unit))
    return found


class Native:
    """The compiled wrappers of one machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.library = build(folder, machine, WRAPPERS, CORE)
        self.library.test_pool.restype = ctypes.c_void_p
        self.library.scratch_bytes.restype = ctypes.c_int64
        self.library.copies_bytes.restype = ctypes.c_int64

    def pool(self, threads: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.library.test_pool() if threads > 1 else None)

    def copies(self, pairs: int, threads: int) -> np.ndarray:
        """Room for copied rows, and NaN behind it."""
        count = self.library.copies_bytes(ctypes.c_int64(pairs), threads) // 4
        room = aligned_zeros(count + 16)
        room[:] = np.nan
        return room

    def gemm(self, a: np.ndarray, b: np.ndarray, epilogue: bool, threads: int) -> np.ndarray:
        """a [batch, m, k] with contiguous rows times b [batch or 1, k, n]."""
        batch, m, k = a.shape
        n, gap = b.shape[2], 3
        packed = np.stack([pack_gemm_bf16(w, self.machine.nr) for w in b])
        c = np.full((batch, m, n + gap), 0 if epilogue else 7, np.float32)
        strides = [s // 2 for s in a.strides[:2]]
        sizes = integers(
            batch, m, n, k, *strides, packed[0].size if len(b) > 1 else 0,
            m * (n + gap), n + gap, epilogue,
        )  # fmt: skip
        copies = self.copies(k // 2, threads)
        arrays = map(address, (sizes, a, packed, c))
        self.library.gemm(*arrays, self.pool(threads), address(copies))
        assert np.isnan(copies[-16:]).all(), "wrote past its copies"
        assert (c[:, :, n:] == (0 if epilogue else 7)).all(), "wrote past its columns"
        return c[:, :, :n]

    def conv(
        self, s: Shape, x: np.ndarray, w: np.ndarray, epilogue: bool, threads: int
    ) -> np.ndarray:
        """x [n, *input, c] by w [oc, c / groups, *kernel]."""
        out = s.out()
        numbers = replace(s, c=s.c // 2).numbers(out)
        sizes = np.append(numbers, np.int64(epilogue))
        packed = pack_conv_bf16(w, s.groups, self.machine.nr)
        taps, pairs = math.prod(s.kernel), s.c // s.groups // 2
        count = self.library.scratch_bytes(*map(ctypes.c_int64, (taps, s.kw, pairs)), threads) // 4
        scratch = aligned_zeros(count + 16)
        scratch[:] = np.nan
        y = np.zeros((s.n, *out, s.oc), np.float32)
        copies = self.copies(taps * pairs, threads)
        arrays = map(address, (sizes, x, packed, y, scratch))
        self.library.conv(*arrays, self.pool(threads), address(copies))
        assert np.isnan(copies[-16:]).all(), "wrote past its copies"
        assert np.isnan(scratch[count:]).all(), "wrote past its scratch"
        return y


@pytest.fixture(scope="module", params=machines(), ids=lambda machine: machine.name)
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("bf16"), request.param)


def rounded(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of several magnitudes, as bf16 holds them."""
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)).astype(BF16)


def assert_near(got: np.ndarray, want: np.ndarray, size: np.ndarray, k: int) -> None:
    """Within the bound of a sum of k exact products in any order (Higham, 2002, section 3.1)."""
    assert (np.abs(got - want) <= (k + 2) * 2.0**-24 * size + 1e-37).all()


def check_product(
    native: Native, a: np.ndarray, b: np.ndarray, epilogue: bool, threads: int
) -> None:
    got = native.gemm(a, b, epilogue, threads)
    wide, other = a.astype(np.float64), b.astype(np.float64)
    assert_near(got, wide @ other, np.abs(wide) @ np.abs(other), a.shape[2])


@pytest.mark.parametrize("k", [0, 2, 8, 30])
def test_all_remainders(native: Native, k: int) -> None:
    rng = np.random.default_rng(k)
    for m in [*range(1, 18), 29, 49]:
        for n in [1, 7, 8, 9, 16, 17, 31, 33, 65, 130]:
            a, b = rounded(rng, 1, m, k), rounded(rng, 1, k, n)
            check_product(native, a, b, epilogue=bool(n % 3), threads=1 + m % 2)


@pytest.mark.parametrize("seed", range(6))
def test_generated_products(native: Native, seed: int) -> None:
    """Batches, rows with gaps, and rows that start between two words."""
    rng = np.random.default_rng(seed)
    batch, m, n, k = (int(rng.integers(1, high)) for high in (4, 90, 300, 200))
    k += k % 2
    a = rounded(rng, batch, m, k + 5)[:, :, seed % 3 : k + seed % 3]
    b = rounded(rng, batch if seed % 3 else 1, k, n)
    check_product(native, a, b, epilogue=bool(seed % 2), threads=1 + seed % 2)


def test_what_is_not_finite_stays_in_its_row_and_column(native: Native) -> None:
    a, b = np.ones((1, 5, 6), BF16), np.ones((1, 6, 33), BF16)
    a[0, 1, 2], a[0, 2, 3], b[0, 4, 32] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(native.gemm(a, b, False, 1), want.astype(np.float32))


@pytest.mark.parametrize("n", [5, 32, 70])
def test_results_rounded_in_registers(native: Native, n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rounded(rng, 1, 17, 6), rounded(rng, 1, 6, n)
    a[0, 3, 2], a[0, 4, 3], a[0, 5] = np.nan, np.inf, 3e38
    want = native.gemm(a, b, False, 1)
    packed = pack_gemm_bf16(b[0], native.machine.nr)
    sizes = integers(1, 17, n, 6, 0, 6, 0, 0, n)
    for kept in (True, False):
        half, c = np.zeros((1, 17, n), BF16), np.zeros((1, 17, n), np.float32)
        copies = native.copies(3, 1)
        arrays = (sizes, a, packed, c if kept else None, half, copies)
        native.library.gemm_half(*map(address, arrays))
        np.testing.assert_array_equal(half.astype(np.float32), want.astype(BF16).astype(np.float32))
        np.testing.assert_array_equal(c, want if kept else 0 * c)


CONVOLUTIONS = {
    "few channels": Shape(1, 23, 29, 4, 40, 7, 7, 2, 2, ph=3, pw=3, end_h=3, end_w=3),
    "3x3": Shape(2, 15, 14, 32, 33, 3, 3, ph=1, pw=1, end_h=1, end_w=1),
    "1x1": Shape(2, 7, 7, 40, 70),
    "1x1 stride 2": Shape(2, 9, 8, 24, 16, sh=2, sw=2),
    "1x1 padded": Shape(1, 5, 5, 20, 20, ph=1, pw=2, end_h=1, end_w=3),
    "dilated": Shape(1, 20, 21, 8, 9, 3, 3, dh=2, dw=3, ph=2, pw=3, end_h=2, end_w=3),
    "grouped": Shape(2, 10, 11, 24, 36, 3, 3, ph=1, pw=1, end_h=1, end_w=1, groups=4),
    "1-D": Shape(3, 1, 50, 16, 20, 1, 5, sw=2, pw=2, end_w=2),
    "3-D": Shape(2, 9, 8, 24, 20, 3, 3, ph=1, pw=1, end_h=1, end_w=1, d=7, kd=3, pd=1, end_d=1),
    "pads wider than the input": Shape(1, 2, 2, 6, 4, 3, 3, ph=4, pw=5, end_h=4, end_w=5),
    "no images": Shape(0, 5, 5, 4, 4, 3, 3),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_every_kind(native: Native, name: str) -> None:
    s, rng = CONVOLUTIONS[name], np.random.default_rng(5)
    x = rounded(rng, s.n, *s.input, s.c)
    w = rounded(rng, *s.weights(rng).shape)
    want = conv_reference(x.astype(np.float64), w.astype(np.float64), s)
    size = conv_reference(np.abs(x).astype(np.float64), np.abs(w).astype(np.float64), s)
    for epilogue, threads in [(False, 1), (True, 2)]:
        got = native.conv(s, x, w, epilogue, threads)
        assert got.shape == want.shape
        assert_near(got, want, size, math.prod(s.kernel) * s.c // s.groups)


@pytest.mark.parametrize("pairs", [1, 16, 17, 400, 2048, 9001])
def test_room_for_copied_rows(native: Native, pairs: int) -> None:
    for threads in (1, 3):
        want = native.library.copies_bytes(ctypes.c_int64(pairs), threads)
        assert evaluate(amx_scratch(pairs), {THREADS: threads}) == want


def test_groups_of_rows_that_are_copied_or_lie_right(native: Native) -> None:
    """More rows than are copied at once; rows in place; rows that share a set of a cache."""
    rng = np.random.default_rng(3)
    for m, k, gap in [(610, 1026, 0), (75, 1024, 0), (75, 1024, 1024), (45, 4100, 0)]:
        a, b = rounded(rng, 1, m, k + gap)[:, :, :k], rounded(rng, 1, k, 70)
        check_product(native, a, b, epilogue=False, threads=2)


def test_what_has_no_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="odd number of steps"):
        pack_gemm_bf16(np.zeros((3, 4), BF16), 8)
    with pytest.raises(ValueError, match="odd number of channels"):
        pack_conv_bf16(np.zeros((4, 3, 2, 2), BF16), 1, 8)
    with pytest.raises(ValueError, match="expected weights of bf16"):
        pack_gemm_bf16(np.zeros((2, 4), np.float32), 8)


@pytest.mark.parametrize("machine", [NEON, WASM], ids=lambda machine: machine.name)
def test_other_machines_compile(machine: Machine, tmp_path: Path) -> None:
    for name in ("core_tile_bf16.cpp", "core_gemm_bf16.cpp", "core_conv_bf16.cpp"):
        compile_object(FOLDER / name, tmp_path / "out.o", machine)
