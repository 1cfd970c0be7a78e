"""The attention kernel against a float64 softmax(q k^T scale + mask) v."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from . import harness_core as hc

I64, I32, PTR = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
F32 = npt.NDArray[np.float32]

SOURCE = """
#include "attention.hpp"
using namespace cuvil;
EXPORT void run(const AttentionArgs* a) { attention_f32(*a); }
EXPORT int64_t args_size() { return sizeof(AttentionArgs); }
EXPORT int64_t scratch_bytes(int64_t kv_len, int64_t head_dim, int64_t v_dim, int32_t threads,
                             int64_t key_block) {
  return attention_scratch_bytes(kv_len, head_dim, v_dim, threads, key_block);
}
EXPORT Pool* create(int32_t n) { return pool_create(n); }
EXPORT void destroy(Pool* p) { pool_destroy(p); }
"""


class Args(ctypes.Structure):
    _fields_ = [
        *[(n, I64) for n in hc.words("batch heads kv_heads q_len kv_len head_dim v_dim")],
        *[(n, PTR) for n in "qkv"],
        *[(f"{n}_{s}", I64) for n in "qkv" for s in ("batch", "head", "row")],
        ("mask", PTR),
        ("mask_kind", I32),
        *[(f"mask_{s}", I64) for s in ("batch", "head", "row", "col")],
        ("causal", ctypes.c_bool),
        ("causal_offset", I64),
        ("zero_masked_rows", ctypes.c_bool),
        ("zero_nan_rows", ctypes.c_bool),
        ("scale", ctypes.c_float),
        ("out", PTR),
        *[(f"out_{s}", I64) for s in ("batch", "head", "row")],
        ("scratch", PTR),
        ("pool", PTR),
        ("key_block", I64),
    ]


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    core = ["core_attention.cpp", "core_tile.cpp", "core_threads.cpp", "core_mem.cpp"]
    loaded = hc.load(hc.build(tmp_path_factory.mktemp("attention"), SOURCE, core))
    loaded.create.restype, loaded.create.argtypes = PTR, [I32]
    loaded.destroy.argtypes = [PTR]
    loaded.scratch_bytes.restype = loaded.args_size.restype = I64
    loaded.scratch_bytes.argtypes = [I64, I64, I64, I32, I64]
    assert loaded.args_size() == ctypes.sizeof(Args)
    yield loaded


@dataclass
class Case:
    """Arrays are [batch, heads, length, dim], of any strides with a contiguous last axis."""

    q: F32
    k: F32
    v: F32
    mask: npt.NDArray[Any] | None = None  # broadcasts to [batch, heads, q_len, kv_len]
    causal: bool = False
    offset: int = 0
    scale: float = 0.3
    zero_masked_rows: bool = False
    zero_nan_rows: bool = False


def make(
    batch: int,
    heads: int,
    q_len: int,
    kv_len: int,
    dim: int,
    v_dim: int | None = None,
    kv_heads: int | None = None,
    **options: Any,
) -> Case:
    """Random inputs laid out [batch, length, heads, dim], as projections leave them."""
    rng = np.random.default_rng(q_len * 1000 + kv_len + dim)

    def draw(length: int, count: int, width: int) -> F32:
        return rng.standard_normal((batch, length, count, width)).astype(np.float32).swapaxes(1, 2)

    shared = kv_heads or heads
    k, v = draw(kv_len, shared, dim), draw(kv_len, shared, v_dim or dim)
    return Case(draw(q_len, heads, dim), k, v, **options)


def reference(c: Case) -> npt.NDArray[np.float64]:
    q, k, v = (a.astype(np.float64) for a in (c.q, c.k, c.v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ k.swapaxes(2, 3) * float(np.float32(c.scale))
    if c.mask is not None:
        if c.mask.dtype == bool:
            scores = np.where(c.mask, scores, -np.inf)
        else:
            scores = scores + c.mask
    if c.causal:
        visible = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + c.offset
        scores = np.where(visible, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - top)
        weights = weights / weights.sum(axis=-1, keepdims=True)
    if c.zero_masked_rows:
        weights = np.where(top == -np.inf, 0, weights)
    if c.zero_nan_rows:
        weights = np.where(np.isnan(weights), 0, weights)
    with np.errstate(invalid="ignore"):
        return weights @ v


def far_apart(q_len: int) -> Case:
    """Scores that are ever larger, so that each block rescales."""
    case = make(1, 1, q_len, 1200, 8, scale=1.0)
    case.k[:] = 0
    case.k[0, 0, :, 0] = np.linspace(-300, 300, 1200)
    case.q[:] = 1
    return case


def run(
    lib: ctypes.CDLL, c: Case, pool: int | None = None, threads: int = 1, key_block: int = 0
) -> F32:
    batch, heads, q_len, dim = c.q.shape
    kv_len, v_dim = c.k.shape[2], c.v.shape[3]
    out = np.full((batch, q_len, heads, v_dim), 555.0, np.float32).swapaxes(1, 2)
    a = Args(batch, heads, c.k.shape[1], q_len, kv_len, dim, v_dim)
    for name, array in (("q", c.q), ("k", c.k), ("v", c.v), ("out", out)):
        assert array.size == 0 or array.shape[3] == 1 or array.strides[3] == 4
        setattr(a, name, array.ctypes.data)
        for axis, part in enumerate(("batch", "head", "row")):
            setattr(a, f"{name}_{part}", array.strides[axis] // 4)
    if c.mask is not None:
        full = np.broadcast_to(c.mask, (batch, heads, q_len, kv_len))
        a.mask, a.mask_kind = hc.address(full), 2 if full.dtype == bool else 1
        for axis, part in enumerate(("batch", "head", "row", "col")):
            setattr(a, f"mask_{part}", full.strides[axis] // full.itemsize)
    a.causal, a.causal_offset, a.scale = c.causal, c.offset, c.scale
    a.zero_masked_rows, a.zero_nan_rows = c.zero_masked_rows, c.zero_nan_rows
    a.key_block = key_block
    floats = lib.scratch_bytes(kv_len, dim, v_dim, threads, key_block) // 4
    scratch = hc.aligned(floats + 16)
    scratch[:floats], scratch[floats:] = np.nan, 4321.0
    a.scratch, a.pool = hc.address(scratch), pool
    lib.run(ctypes.byref(a))
    assert (scratch[floats:] == 4321.0).all(), "wrote past its scratch"
    return out


def check(lib: ctypes.CDLL, c: Case, **more: Any) -> None:
    got = run(lib, c, **more)
    np.testing.assert_allclose(got, reference(c), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dim", [1, 7, 32, 64, 80])
@pytest.mark.parametrize(
    ("q_len", "kv_len"),
    [(1, 1), (1, 37), (3, 200), (4, 5), (14, 32), (15, 33), (29, 129), (1, 1500), (20, 1000)],
)
def test_sizes(lib: ctypes.CDLL, q_len: int, kv_len: int, dim: int) -> None:
    check(lib, make(2, 3, q_len, kv_len, dim))


@pytest.mark.parametrize("v_dim", [1, 16, 31, 48, 100])
@pytest.mark.parametrize("q_len", [2, 19])
def test_values_of_another_width(lib: ctypes.CDLL, q_len: int, v_dim: int) -> None:
    check(lib, make(1, 2, q_len, 50, 24, v_dim))


@pytest.mark.parametrize("q_len", [1, 30])
def test_grouped_heads(lib: ctypes.CDLL, q_len: int) -> None:
    check(lib, make(2, 6, q_len, 40, 32, kv_heads=2))
    check(lib, make(2, 4, q_len, 40, 32, kv_heads=1))


@pytest.mark.parametrize("offset", [0, 5, -3, 30, 700])
@pytest.mark.parametrize("q_len", [1, 3, 33])
@pytest.mark.parametrize("kv_len", [40, 900])
@pytest.mark.parametrize("zero", [False, True])
def test_causal(lib: ctypes.CDLL, kv_len: int, q_len: int, offset: int, zero: bool) -> None:
    case = make(1, 2, q_len, kv_len, 16, causal=True, offset=offset, zero_masked_rows=zero)
    check(lib, case)


MASK_SHAPES = [(2, 3, 0, 1), (2, 1, 1, 1), (1, 1, 0, 1), (1, 3, 0, 0), (1, 1, 1, 1)]


@pytest.mark.parametrize("shape", MASK_SHAPES)
@pytest.mark.parametrize("kind", ["bool", "additive", "strided"])
@pytest.mark.parametrize(("q_len", "kv_len"), [(2, 70), (18, 70), (18, 1000)])
def test_masks(
    lib: ctypes.CDLL, q_len: int, kv_len: int, kind: str, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(4)
    rows, cols = q_len if shape[2] == 0 else 1, kv_len if shape[3] == 1 else 1
    keep = rng.random((shape[0], shape[1], rows, cols)) < (0.7 if cols > 1 else 2)
    mask: npt.NDArray[Any] = keep
    if kind == "additive":
        added = rng.standard_normal(keep.shape) * 3
        mask = np.where(keep, added, -np.inf).astype(np.float32)
    elif kind == "strided":
        mask = np.repeat(keep, 2, axis=3)[..., ::2]
    check(lib, make(2, 3, q_len, kv_len, 20, mask=mask))


@pytest.mark.parametrize("kind", ["bool", "additive"])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize(("q_len", "kv_len"), [(2, 9), (16, 9), (16, 900)])
def test_rows_wholly_masked(
    lib: ctypes.CDLL, q_len: int, kv_len: int, zero: bool, kind: str
) -> None:
    keep = np.ones((q_len, kv_len), bool)
    keep[1] = False
    keep[0, : kv_len // 2] = False  # the first blocks hidden, later ones not
    mask = keep if kind == "bool" else np.where(keep, 0, -np.inf).astype(np.float32)
    case = make(1, 2, q_len, kv_len, 8, mask=mask, zero_masked_rows=zero)
    got = run(lib, case)
    np.testing.assert_allclose(got, reference(case), rtol=2e-5, atol=2e-6)
    assert (got[:, :, 1] == 0).all() if zero else np.isnan(got[:, :, 1]).all()


@pytest.mark.parametrize("q_len", [2, 20])
def test_mask_and_causal_together(lib: ctypes.CDLL, q_len: int) -> None:
    keep = np.random.default_rng(0).random((q_len, 30)) < 0.5
    keep[:, 0] = True
    check(lib, make(1, 2, q_len, 30, 8, mask=keep, causal=True, offset=3))


@pytest.mark.parametrize("scale", [0.0, -0.4, 1e-30, 30.0])
@pytest.mark.parametrize("q_len", [1, 16])
def test_scales(lib: ctypes.CDLL, q_len: int, scale: float) -> None:
    case = make(1, 2, q_len, 700, 16, scale=scale)
    np.testing.assert_allclose(run(lib, case), reference(case), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("q_len", [2, 20])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_stay_in_their_rows(lib: ctypes.CDLL, q_len: int, bad: float) -> None:
    case = make(1, 2, q_len, 40, 8)
    case.q[0, 1, 1, 3] = bad
    got = run(lib, case)
    assert np.isnan(got[0, 1, 1]).all()
    got[0, 1, 1] = 0
    case.q[0, 1, 1, 3] = 0
    want = reference(case)
    want[0, 1, 1] = 0
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("q_len", [2, 20])
def test_rows_of_nan_weights_count_as_zero(lib: ctypes.CDLL, q_len: int) -> None:
    case = make(1, 2, q_len, 40, 8, zero_nan_rows=True)
    case.q[0, 1, 1, 3] = np.nan
    case.v[0, 0, 5, 2] = np.inf
    check(lib, case)


@pytest.mark.parametrize("q_len", [2, 3, 16, 70])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_of_later_keys(lib: ctypes.CDLL, q_len: int, bad: float) -> None:
    case = make(2, 4, q_len, 70, 20, kv_heads=2, causal=True)
    case.v[0, 1, q_len // 2, 17] = bad
    case.v[1, 0, 69, 2] = bad
    check(lib, case)


@pytest.mark.parametrize("key_block", [32, 96, 768])
def test_key_blocks(lib: ctypes.CDLL, key_block: int) -> None:
    check(lib, make(1, 2, 20, 700, 24), key_block=key_block)


@pytest.mark.parametrize("q_len", [1, 20])
def test_scores_far_apart(lib: ctypes.CDLL, q_len: int) -> None:
    check(lib, far_apart(q_len))


def test_nothing_to_do(lib: ctypes.CDLL) -> None:
    assert run(lib, make(0, 2, 4, 4, 8)).shape == (0, 2, 4, 8)
    assert run(lib, make(1, 2, 0, 4, 8)).shape == (1, 2, 0, 8)
    for q_len in (1, 20):
        assert (run(lib, make(1, 2, q_len, 0, 8)) == 0).all()


@pytest.mark.parametrize("heads", [1, 3, 8])
@pytest.mark.parametrize("q_len", [1, 150])
def test_threads(lib: ctypes.CDLL, q_len: int, heads: int) -> None:
    case = make(1, heads, q_len, 600, 64)
    pool = lib.create(2)
    try:
        check(lib, case, pool=pool, threads=2)
    finally:
        lib.destroy(pool)


@pytest.mark.parametrize("kind", ["none", "bool", "additive"])
def test_against_torch(lib: ctypes.CDLL, kind: str) -> None:
    torch = pytest.importorskip("torch")
    keep = np.random.default_rng(1).random((1, 1, 25, 30)) < 0.6
    keep[0, 0, 7] = False  # torch gives 0 there
    masks = {"none": None, "bool": keep, "additive": np.where(keep, 0, -np.inf).astype("f4")}
    case = make(2, 4, 25, 30, 16, mask=masks[kind], scale=0.25, zero_masked_rows=True)
    given = None if case.mask is None else torch.from_numpy(np.array(case.mask))
    q, k, v = (torch.from_numpy(a.copy()) for a in (case.q, case.k, case.v))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given).numpy()
    np.testing.assert_allclose(run(lib, case), want, rtol=2e-5, atol=2e-6)
