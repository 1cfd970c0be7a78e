"""gemm_i8 against NumPy's integers: exact, for every remainder of rows, columns and depth."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from cuvil.codegen.packing import pack_gemm_i8

from .harness import NATIVE as FOLDER
from .harness import NEON, SSE, WASM, Machine, address, build, compile_object, integers, runnable
from .harness import _cpu_flags as cpu_flags

CORE = ("core_tile.cpp", "core_gemm_i8.cpp")
WRAPPERS = r"""
#include "gemm_i8.hpp"
using namespace cuvil;
struct Sink { int32_t* c; int64_t batch_stride, row_stride; };
static void added(const void* ctx, const float* tile, int64_t ld, int64_t batch, int64_t m0,
                  int64_t mr, int64_t n0, int64_t nr) {
  const Sink& s = *static_cast<const Sink*>(ctx);
  const vi_element* sums = (const vi_element*)tile;
  for (int64_t i = 0; i < mr; ++i)
    for (int64_t j = 0; j < nr; ++j)
      s.c[batch * s.batch_stride + (m0 + i) * s.row_stride + n0 + j] += sums[i * ld + j];
}
// p: batch m n k a_signed a_batch a_row b_batch c_batch c_row epilogue
EXPORT void gemm(const int64_t* p, const void* a, const void* b, int32_t* c, void* pool) {
  const Sink sink = {c, p[8], p[9]};
  const Epilogue e = {p[10] ? added : nullptr, &sink};
  gemm_i8({p[0], p[1], p[2], p[3], a, p[4] != 0, p[5], p[6], b, p[7], p[10] ? nullptr : c, p[8],
           p[9], e, static_cast<Pool*>(pool)});
}
"""


def _machines() -> list[Machine]:
    """Those of the harness, and those with a dot product of bytes."""
    flags = cpu_flags()
    found = [*runnable(), SSE] if "sse2" in flags else runnable()
    if {"avx512_vnni", "avx512bw", "avx512vl", "avx512dq"} <= flags:
        wide = ("-mcpu=x86_64_v4+avx512vnni-prefer_256_bit",)
        found.append(Machine("avx512vnni", 64, 14, 32, wide))
    if "avx_vnni" in flags:
        found.append(Machine("avxvnni", 32, 6, 16, ("-mcpu=x86_64_v3+avxvnni",)))
    return found


class Gemm:
    """The compiled wrappers of one machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.library = build(folder, machine, WRAPPERS, CORE)
        self.library.test_pool.restype = ctypes.c_void_p

    def __call__(self, a: np.ndarray, b: np.ndarray, epilogue: bool, threads: int) -> np.ndarray:
        """a [batch, m, k] with contiguous rows times b [batch or 1, k, n]."""
        batch, m, k = a.shape
        n, gap, signed = b.shape[2], 3, a.dtype == np.int8
        packed = np.stack([pack_gemm_i8(w, self.machine.nr, -128 if signed else 0) for w in b])
        c = np.full((batch, m, n + gap), 0 if epilogue else 7, np.int32)
        sizes = integers(
            batch, m, n, k, signed, *a.strides[:2], packed[0].size if len(b) > 1 else 0,
            m * (n + gap), n + gap, epilogue,
        )  # fmt: skip
        pool = ctypes.c_void_p(self.library.test_pool() if threads > 1 else None)
        self.library.gemm(*map(address, (sizes, a, packed, c)), pool)
        assert (c[:, :, n:] == (0 if epilogue else 7)).all(), "wrote past its columns"
        return c[:, :, :n]


@pytest.fixture(scope="module", params=_machines(), ids=lambda machine: machine.name)
def gemm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gemm:
    return Gemm(tmp_path_factory.mktemp("gemm"), request.param)


def _bytes(rng: np.random.Generator, kind: type, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    out = rng.integers(info.min, info.max + 1, shape).astype(kind)
    return np.where(rng.random(shape) < 0.2, info.max, out).astype(kind)


@pytest.mark.parametrize("k", [0, 1, 3, 4, 30])
def test_all_remainders(gemm: Gemm, k: int) -> None:
    rng = np.random.default_rng(k)
    for m in [*range(1, 18), 29, 49]:
        for n in [1, 7, 8, 9, 16, 17, 31, 33, 65, 130]:
            kind = (np.uint8, np.int8)[(m + n) % 2]
            a, b = _bytes(rng, kind, 1, m, k), _bytes(rng, np.int8, 1, k, n)
            got = gemm(a, b, epilogue=bool(n % 3), threads=1 + m % 2)
            np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("seed", range(8))
def test_generated_shapes(gemm: Gemm, seed: int) -> None:
    """Rows with gaps, batches, and sums of extremes that would not fit 16 bits."""
    rng = np.random.default_rng(seed)
    batch, m, n, k = (int(rng.integers(0, high)) for high in (4, 90, 300, 200))
    kind = (np.uint8, np.int8)[seed % 2]
    a = _bytes(rng, kind, batch, m, k + 5)[:, :, 2 : k + 2]
    b = _bytes(rng, np.int8, batch if seed % 3 else 1, k, n)
    if seed % 4 == 0:
        a, b = np.full_like(a, np.iinfo(kind).max), np.full_like(b, -128)
    if not len(b):
        return
    got = gemm(a, b, epilogue=bool(seed % 2), threads=1 + seed % 2)
    np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("machine", [NEON, WASM], ids=lambda machine: machine.name)
def test_other_machines_compile(machine: Machine, tmp_path: Path) -> None:
    compile_object(FOLDER / "core_gemm_i8.cpp", tmp_path / "out.o", machine)


def test_packing_rejects_what_it_cannot_hold() -> None:
    with pytest.raises(ValueError, match="expected an i8 matrix"):
        pack_gemm_i8(np.zeros((2, 2), np.uint8), 8, 0)  # type: ignore[arg-type]
    packed = pack_gemm_i8(np.full((5, 3), 2, np.int8), 8, -128)
    assert packed.shape == (1, 3, 8)
    assert packed[0, 0].tolist() == [-1280] * 3 + [0] * 5
    assert packed[0, 1].view(np.int8)[:12].tolist() == [2] * 12
    assert packed[0, 2].view(np.int8)[:12].tolist() == [2, 0, 0, 0] * 3
