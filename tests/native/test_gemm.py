"""gemm_f32 and pack_b_f32 against NumPy in float64."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from cuvil.codegen.packing import pack_gemm_b

from .harness import NATIVE, Machine, address, aligned_zeros, build, integers, runnable

CORE = ("core_tile.cpp", "core_gemm.cpp")
WRAPPERS = r"""
#include "gemm.hpp"
using namespace cuvil;
struct MatrixSink { float* c; float* visits; int64_t batch_stride, row_stride; };
// Writes 2 * value and counts the visits of each element.
static void doubled_matrix(const void* ctx, const float* tile, int64_t ld, int64_t batch,
                           int64_t m0, int64_t mr, int64_t n0, int64_t nr) {
  const MatrixSink& s = *static_cast<const MatrixSink*>(ctx);
  if (reinterpret_cast<uintptr_t>(tile) % 64 || ld % VL || mr > EPILOGUE_MAX_ROWS ||
      nr > EPILOGUE_MAX_COLS) return;
  for (int64_t i = 0; i < mr; ++i)
    for (int64_t j = 0; j < nr; ++j) {
      const int64_t at = batch * s.batch_stride + (m0 + i) * s.row_stride + n0 + j;
      s.c[at] = 2 * tile[i * ld + j];
      s.visits[at] += 1;
    }
}
// p: batch m n k a_batch a_row a_col b_batch c_batch c_row
EXPORT void gemm(const int64_t* p, const float* a, const float* b, float* c, float* visits,
                 void* scratch, void* pool) {
  const MatrixSink sink = {c, visits, p[8], p[9]};
  const Epilogue e = {visits ? doubled_matrix : nullptr, &sink};
  gemm_f32({p[0], p[1], p[2], p[3], a, p[4], p[5], p[6], b, p[7], visits ? nullptr : c, p[8], p[9],
            e, scratch, static_cast<Pool*>(pool)});
}
EXPORT int64_t scratch_bytes(int64_t k, int32_t contiguous, int32_t threads) {
  return gemm_scratch_bytes(1, 1, k, contiguous, threads);
}
EXPORT void pack(float* dst, const float* b, int64_t k, int64_t n, int64_t row, int64_t col) {
  pack_b_f32(dst, b, k, n, row, col);
}
"""


class Gemm:
    """The compiled wrappers of one machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.library = build(folder, machine, WRAPPERS, CORE)
        self.library.test_pool.restype = ctypes.c_void_p
        self.library.scratch_bytes.restype = ctypes.c_int64

    def __call__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        *,
        epilogue: bool = False,
        threads: int = 1,
        gap: int = 3,
    ) -> np.ndarray:
        """a [batch, m, k] of any strides times b [batch or 1, k, n], through packed panels."""
        batch, m, k = a.shape
        n = b.shape[2]
        nr = self.machine.nr
        packed = np.empty((len(b), -(-n // nr), k, nr), np.float32)
        for entry, w in zip(packed, b, strict=True):
            entry[:] = pack_gemm_b(w, nr)
        c = np.full((batch, m, n + gap), 7, np.float32)
        visits = np.zeros_like(c) if epilogue else None
        in_place = int(a.strides[2] == 4)
        count = self.library.scratch_bytes(ctypes.c_int64(k), in_place, threads) // 4
        scratch = aligned_zeros(count + 16)
        scratch[:] = np.nan
        b_batch = packed[0].size if len(b) > 1 else 0
        sizes = integers(
            batch, m, n, k, *(s // 4 for s in a.strides), b_batch, m * (n + gap), n + gap
        )
        pool = ctypes.c_void_p(self.library.test_pool() if threads > 1 else None)
        self.library.gemm(*map(address, (sizes, a, packed, c, visits, scratch)), pool)
        assert np.isnan(scratch[count:]).all(), "wrote past its scratch"
        assert (c[:, :, n:] == 7).all(), "wrote past its columns"
        if visits is not None:
            assert (visits[:, :, :n] == 1).all(), "an element was not handed over exactly once"
            return c[:, :, :n] / 2
        return c[:, :, :n]

    def pack(self, b: np.ndarray) -> np.ndarray:
        k, n = b.shape
        nr = self.machine.nr
        out = np.full((-(-n // nr), k, nr), 7, np.float32)
        row, col = (ctypes.c_int64(s // 4) for s in b.strides)
        self.library.pack(address(out), address(b), ctypes.c_int64(k), ctypes.c_int64(n), row, col)
        return out


@pytest.fixture(scope="module", params=runnable(), ids=lambda machine: machine.name)
def gemm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gemm:
    return Gemm(tmp_path_factory.mktemp("gemm"), request.param)


def assert_product(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Within the bound of a sum of k products in any order (Higham, 2002, section 3.1)."""
    want = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    bound = (a.shape[-1] + 2) * 2.0**-24 * size + 1e-37
    assert got.shape == want.shape
    assert (np.abs(got - want) <= bound).all()


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("k", [0, 1, 3, 17, 64])
def test_all_row_and_column_remainders(gemm: Gemm, k: int) -> None:
    rng = np.random.default_rng(k)
    for m in [*range(1, 18), 29, 49]:
        for n in [1, 7, 8, 9, 16, 17, 31, 33, 65, 130]:
            a, b = normal(rng, 1, m, k), normal(rng, 1, k, n)
            epilogue = bool((m + n) % 2)
            assert_product(gemm(a, b, epilogue=epilogue, threads=1 + m % 2), a, b)


@pytest.mark.parametrize("seed", range(40))
def test_generated_shapes_and_strides(gemm: Gemm, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, m, n, k = (int(rng.integers(0, high)) for high in (4, 90, 300, 200))
    a = normal(rng, batch, m, k)
    layout = int(rng.integers(0, 4))
    if layout == 1:
        a = normal(rng, batch, k, m).transpose(0, 2, 1)
    elif layout == 2:
        a = normal(rng, m, batch, k + 5).transpose(1, 0, 2)[:, :, 2 : k + 2]
    elif layout == 3:
        a = normal(rng, batch, m, 3 * k)[:, :, ::3]
    b = normal(rng, batch if seed % 2 else 1, k, n)
    got = gemm(a, b, epilogue=bool(rng.integers(2)), threads=int(rng.integers(1, 3)))
    assert_product(got, a, b)


def test_rows_a_cache_period_apart(gemm: Gemm) -> None:
    rng = np.random.default_rng(1)
    a, b = normal(rng, 1, 31, 1024), normal(rng, 1, 1024, 70)
    assert_product(gemm(a, b), a, b)


def test_large_inner_dimension_and_many_panels(gemm: Gemm) -> None:
    rng = np.random.default_rng(2)
    a, b = normal(rng, 1, 30, 5000), normal(rng, 1, 5000, 200)
    assert_product(gemm(a, b, epilogue=True, threads=2), a, b)


def test_zero_sizes_touch_nothing(gemm: Gemm) -> None:
    for batch, m, n in [(0, 3, 4), (2, 0, 4), (2, 3, 0)]:
        a = np.ones((batch, m, 5), np.float32)
        gemm(a, np.ones((1, 5, n), np.float32))
    assert (gemm(np.ones((2, 3, 0), np.float32), np.ones((1, 0, 9), np.float32)) == 0).all()


def test_specials_reach_their_own_row_and_column_only(gemm: Gemm) -> None:
    rng = np.random.default_rng(3)
    for n in [1, 5, 17, 33]:
        a, b = normal(rng, 1, 19, 40), normal(rng, 1, 40, n)
        a[0, 2, 7], a[0, 5, 9] = np.nan, np.inf
        b[0, 3, n // 2] = -np.inf
        with np.errstate(invalid="ignore"):
            want = a[0].astype(np.float64) @ b[0].astype(np.float64)
        got = gemm(a, b, epilogue=n == 17)[0]
        assert (np.isnan(got) == np.isnan(want)).all()
        assert (got[np.isinf(want)] == want[np.isinf(want)]).all()
        finite = np.isfinite(want)
        assert (n == 1 or finite.any()) and np.allclose(
            got[finite], want[finite], rtol=1e-5, atol=1e-5
        )


def test_inf_in_a_row_does_not_meet_the_padding_of_b(gemm: Gemm) -> None:
    a = np.full((1, 3, 4), np.inf, np.float32)
    got = gemm(a, np.ones((1, 4, gemm.machine.nr + 1), np.float32), epilogue=True)
    assert (got == np.inf).all()


@pytest.mark.parametrize("order", ["rows", "columns", "strided"])
def test_run_time_packing_equals_compile_time_packing(gemm: Gemm, order: str) -> None:
    rng = np.random.default_rng(4)
    for k, n in [(0, 5), (1, 1), (5, 40), (64, 64), (33, 95), (70, 31)]:
        b = {
            "rows": normal(rng, k, n + 3)[:, 1 : n + 1],
            "columns": normal(rng, n, k + 2).T[:k],
            "strided": normal(rng, k, 2 * n)[:, ::2],
        }[order]
        assert np.array_equal(gemm.pack(b), pack_gemm_b(b, gemm.machine.nr))


def test_packing_refuses_what_is_no_matrix() -> None:
    with pytest.raises(ValueError, match=r"\[K, N\]"):
        pack_gemm_b(np.zeros((2, 3, 4), np.float32), 8)


def test_scratch_formula(gemm: Gemm) -> None:
    for k in [0, 1, 16, 17, 1024]:
        stride = 16 * (-(-k // 16) | 1)
        assert (
            gemm.library.scratch_bytes(ctypes.c_int64(k), 0, 3) == 3 * gemm.machine.mr * stride * 4
        )
        assert gemm.library.scratch_bytes(ctypes.c_int64(k), 1, 3) == 0


def test_kernels_are_small(gemm: Gemm) -> None:
    assert NATIVE.is_dir()
    size = Path(gemm.library._name).stat().st_size
    assert size < 120_000
