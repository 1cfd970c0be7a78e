"""Attention that may round to bf16, against float64 of the rounded q, k and v: what is left are the
weights' error, 2^-13 of each, their rounding, 2^-9, and that of sums in f32.

Each machine runs the forms that it has: nothing rounded, dot products of pairs, the matrix unit."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from . import harness_core as hc
from .harness import NATIVE as FOLDER
from .harness import NEON, WASM, Machine, compile_object
from .test_attention import I32, I64, MASK_SHAPES, PTR, Args, Case, far_apart, make, reference, run

SOURCE = """
#include "attention_bf16.hpp"
#include "tile_amx.hpp"
using namespace cuvil;
EXPORT void run(const AttentionArgs* a) { attention_bf16(*a); }
EXPORT int64_t args_size() { return sizeof(AttentionArgs); }
EXPORT int64_t scratch_bytes(int64_t kv_len, int64_t head_dim, int64_t v_dim, int32_t threads,
                             int64_t key_block) {
  return attention_bf16_scratch_bytes(kv_len, head_dim, v_dim, threads, key_block);
}
EXPORT int64_t unit_bytes(int64_t kv_len, int64_t head_dim, int64_t v_dim) {
  return attention_unit_bytes(kv_len, head_dim, v_dim);
}
EXPORT int32_t form() {
#if CUVIL_AMX
  if (amx_ready()) return 2;
#endif
  return CUVIL_PAIR_ATTENTION;
}
EXPORT Pool* create(int32_t n) { return pool_create(n); }
EXPORT void destroy(Pool* p) { pool_destroy(p); }
"""
CORE = [
    "core_attention.cpp", "core_attention_bf16.cpp", "core_tile.cpp", "core_tile_bf16.cpp",
    "core_tile_amx.cpp", "core_threads.cpp", "core_mem.cpp",
]  # fmt: skip
FORMS: Mapping[str, Sequence[str]] = {
    "exact": ("-U__AVX512BF16__", "-U__AMX_BF16__"), "pairs": ("-U__AMX_BF16__",), "matrix": (),
}  # fmt: skip


@pytest.fixture(scope="module", params=FORMS)
def lib(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ctypes.CDLL]:
    folder = tmp_path_factory.mktemp("attention_bf16")
    loaded = hc.load(hc.build(folder, SOURCE, CORE, FORMS[request.param]))
    if loaded.form() != list(FORMS).index(request.param):
        pytest.skip(f"this CPU has no instructions for attention in the form '{request.param}'")
    loaded.create.restype, loaded.create.argtypes = PTR, [I32]
    loaded.destroy.argtypes = [PTR]
    loaded.scratch_bytes.restype = loaded.args_size.restype = loaded.unit_bytes.restype = I64
    loaded.scratch_bytes.argtypes = [I64, I64, I64, I32, I64]
    loaded.unit_bytes.argtypes = [I64, I64, I64]
    assert loaded.args_size() == ctypes.sizeof(Args)
    yield loaded


def rounded(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


def check(lib: ctypes.CDLL, case: Case, **more: Any) -> None:
    got = run(lib, case, **more)
    if case.q.shape[2] < 4 or not lib.form():
        np.testing.assert_allclose(got, reference(case), rtol=2e-5, atol=2e-6)
        return
    narrow = replace(case, q=rounded(case.q), k=rounded(case.k), v=rounded(case.v))
    wanted = reference(narrow)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite].astype(np.float32))
    weighed = reference(replace(narrow, v=np.abs(narrow.v)))[finite]
    wrong = np.abs(got[finite] - wanted[finite]) > 2.0**-8 * np.abs(weighed) + 1e-5
    assert not wrong.any(), np.argwhere(wrong)[:5]


@pytest.mark.parametrize("dim", [1, 7, 32, 64, 80])
@pytest.mark.parametrize(
    ("q_len", "kv_len"),
    [(1, 37), (4, 1), (4, 5), (15, 33), (16, 16), (29, 129), (33, 577), (70, 64), (20, 1001)],
)
def test_sizes(lib: ctypes.CDLL, q_len: int, kv_len: int, dim: int) -> None:
    check(lib, make(2, 3, q_len, kv_len, dim))


@pytest.mark.parametrize("v_dim", [1, 16, 31, 48, 100])
def test_values_of_another_width(lib: ctypes.CDLL, v_dim: int) -> None:
    check(lib, make(1, 2, 19, 50, 24, v_dim))


def test_grouped_heads(lib: ctypes.CDLL) -> None:
    check(lib, make(2, 6, 30, 40, 32, kv_heads=2))
    check(lib, make(2, 4, 70, 40, 32, kv_heads=1))


@pytest.mark.parametrize("offset", [0, 5, -3, -40, 700])
@pytest.mark.parametrize("kv_len", [40, 900])
@pytest.mark.parametrize("zero", [False, True])
def test_causal(lib: ctypes.CDLL, kv_len: int, offset: int, zero: bool) -> None:
    case = make(1, 2, 45, kv_len, 16, causal=True, offset=offset, zero_masked_rows=zero)
    got, wanted = run(lib, case), reference(case)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    case.q[np.isnan(wanted).any(-1)] = 0
    hidden = np.isnan(wanted)
    narrow = replace(case, q=rounded(case.q), k=rounded(case.k), v=rounded(case.v))
    np.testing.assert_allclose(
        np.where(hidden, 0, got), np.where(hidden, 0, reference(narrow)), atol=2e-2
    )


@pytest.mark.parametrize("shape", MASK_SHAPES)
@pytest.mark.parametrize("kind", ["bool", "additive"])
@pytest.mark.parametrize("kv_len", [70, 1000])
def test_masks(lib: ctypes.CDLL, kv_len: int, kind: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    rows, cols = 35 if shape[2] == 0 else 1, kv_len if shape[3] == 1 else 1
    keep = rng.random((shape[0], shape[1], rows, cols)) < (0.7 if cols > 1 else 2)
    mask: npt.NDArray[Any] = keep
    if kind == "additive":
        added = rng.standard_normal(keep.shape) * 3
        mask = np.where(keep, added, -np.inf).astype(np.float32)
    check(lib, make(2, 3, 35, kv_len, 20, mask=mask))


def test_mask_and_causal_together(lib: ctypes.CDLL) -> None:
    keep = np.random.default_rng(0).random((50, 61)) < 0.5
    keep[:, 0] = True
    check(lib, make(1, 2, 50, 61, 8, mask=keep, causal=True, offset=3))


@pytest.mark.parametrize("scale", [0.0, -0.4, 1e-30, 30.0])
def test_scales(lib: ctypes.CDLL, scale: float) -> None:
    case = make(1, 2, 16, 700, 16, scale=scale)
    # Products are exact, so scores have the error of f32 sums: times 30, much of a weight's.
    narrow = replace(case, q=rounded(case.q), k=rounded(case.k), v=rounded(case.v))
    wanted = reference(narrow if lib.form() else case)
    np.testing.assert_allclose(run(lib, case), wanted, atol=2e-2 if lib.form() else 1e-4)


@pytest.mark.parametrize("key_block", [32, 96, 768])
def test_key_blocks(lib: ctypes.CDLL, key_block: int) -> None:
    check(lib, make(1, 2, 40, 701, 24), key_block=key_block)


@pytest.mark.parametrize("zero", [False, True])
def test_rows_wholly_masked(lib: ctypes.CDLL, zero: bool) -> None:
    keep = np.ones((40, 900), bool)
    keep[1] = False
    keep[0, :450] = False
    got = run(lib, make(1, 2, 40, 900, 8, mask=keep, zero_masked_rows=zero))
    assert (got[:, :, 1] == 0).all() if zero else np.isnan(got[:, :, 1]).all()
    assert np.isfinite(np.delete(got, 1, 2)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_stay_in_their_rows(lib: ctypes.CDLL, bad: float) -> None:
    case = make(1, 2, 40, 40, 8)
    case.q[0, 1, 1, 3] = bad
    got = run(lib, case)
    assert np.isnan(got[0, 1, 1]).all()
    assert np.isfinite(got[0, 0]).all() and np.isfinite(np.delete(got[0, 1], 1, 0)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 39, 599])
def test_bad_values_stay_in_their_columns(lib: ctypes.CDLL, at: int, bad: float) -> None:
    case = make(1, 2, 40, at + 1, 33)
    case.v[0, 1, at, 3] = bad
    got = run(lib, case)
    assert (np.isnan(got[0, 1, :, 3]) if np.isnan(bad) else got[0, 1, :, 3] == bad).all()
    assert np.isfinite(got[0, 0]).all() and np.isfinite(np.delete(got[0, 1], 3, 1)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_key_spoils_its_head(lib: ctypes.CDLL, bad: float) -> None:
    case = make(1, 2, 40, 41, 9)
    case.k[0, 1, 40, 8] = bad
    case.q[0, 1] = np.abs(case.q[0, 1])
    got = run(lib, case)
    assert np.isnan(got[0, 1]).all() and np.isfinite(got[0, 0]).all()


@pytest.mark.parametrize("kv_len", [41, 900])
def test_rows_of_nan_weights_count_as_zero(lib: ctypes.CDLL, kv_len: int) -> None:
    case = make(1, 2, 40, kv_len, 9, zero_nan_rows=True)
    case.q[0, 1, [1, 30], 3] = np.nan
    case.v[0, 0, 5, 2] = np.inf
    case.v[0, 1, 7, 4] = -np.inf
    check(lib, case)


def test_weights_of_scores_far_below_are_zero(lib: ctypes.CDLL) -> None:
    case = make(1, 1, 20, 70, 8, scale=1.0)
    case.q[:], case.k[:] = 1, 0
    case.k[0, 0, 1:, 0] = -np.linspace(86, 600, 69)
    case.v[0, 0, 1:] = 1e38
    case.v[0, 0, 0] = 0
    np.testing.assert_allclose(run(lib, case), reference(case), rtol=2e-2, atol=1e-2)


def test_scores_far_apart(lib: ctypes.CDLL) -> None:
    check(lib, far_apart(20))


def test_nothing_to_do(lib: ctypes.CDLL) -> None:
    assert run(lib, make(0, 2, 4, 4, 8)).shape == (0, 2, 4, 8)
    assert run(lib, make(1, 0, 4, 4, 8)).shape == (1, 0, 4, 8)
    assert (run(lib, make(1, 2, 20, 0, 8)) == 0).all()


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_threads(lib: ctypes.CDLL, heads: int) -> None:
    pool = lib.create(2)
    try:
        check(lib, make(1, heads, 150, 600, 64), pool=pool, threads=2)
    finally:
        lib.destroy(pool)


def test_the_generated_code_asks_for_enough_scratch(lib: ctypes.CDLL) -> None:
    from cuvil.codegen.kernel import THREADS
    from cuvil.codegen.native_scratch import attention_unit_scratch
    from cuvil.sym.expr import evaluate
    from cuvil.target.native import native_target

    for kv_len in (0, 1, 31, 33, 384, 576, 577, 1500):
        for dim in (1, 32, 80):
            sizes = {"kv_len": kv_len, "head_dim": dim, "v_dim": dim + 1}
            asked = attention_unit_scratch(sizes, 384, native_target())
            assert evaluate(asked, {THREADS: 1}) >= lib.unit_bytes(kv_len, dim, dim + 1)


def test_the_form_for_a_matrix_unit_compiles(tmp_path: Path) -> None:
    cpu = ("-target", "x86_64-linux-gnu", "-mcpu=sapphirerapids-prefer_256_bit")
    for name in ("core_attention_bf16.cpp", "core_tile_amx.cpp"):
        hc.compile_object(hc.NATIVE / name, tmp_path / "out.o", (*cpu, "-DCUVIL_VEC_BYTES=64"))


@pytest.mark.parametrize("machine", [NEON, WASM], ids=lambda machine: machine.name)
def test_other_machines_compile(machine: Machine, tmp_path: Path) -> None:
    compile_object(FOLDER / "core_attention_bf16.cpp", tmp_path / "out.o", machine)
