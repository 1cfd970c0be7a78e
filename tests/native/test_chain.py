"""A depthwise convolution with the 1x1 convolutions around it against NumPy in float64."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from cuvil.codegen.chain_kernel import CHAIN_STRIP, chain_scratch
from cuvil.codegen.kernel import THREADS
from cuvil.codegen.packing import pack_conv_weights, pack_depthwise
from cuvil.sym.expr import evaluate

from .conv_harness import SINK, Shape, conv_reference, normal
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

CORE = ("core_tile.cpp", "core_chain.cpp")
WRAPPERS = (
    r"""
#include "chain.hpp"
using namespace cuvil;
struct Bias { const float* by_channel; float* visits; int64_t channels; };
static void shift(const void* ctx, float* tile, int64_t ld, int64_t batch, int64_t m0, int64_t mr,
                  int64_t n0, int64_t nr) {
  const Bias& b = *static_cast<const Bias*>(ctx);
  for (int64_t i = 0; i < mr; ++i)
    for (int64_t j = 0; j < nr; ++j) {
      tile[i * ld + j] += b.by_channel[n0 + j] + float(batch);
      b.visits[(m0 + i) * b.channels + n0 + j] += 1;
    }
}
"""
    + SINK
    + r"""
// p: n h w c mid oh ow oc k s ph pw.
static ChainArgs of(const int64_t* p, const float* x, const float* expand, const float* filter,
                    const float* project, void* scratch, void* pool) {
  ChainArgs a = {};
  a.n = p[0], a.h = p[1], a.w = p[2], a.c = p[3], a.mid = p[4], a.oh = p[5], a.ow = p[6];
  a.oc = p[7], a.k = int32_t(p[8]), a.s = int32_t(p[9]), a.ph = p[10], a.pw = p[11];
  a.x = x, a.expand = expand, a.filter = filter, a.project = project, a.scratch = scratch;
  a.pool = static_cast<Pool*>(pool);
  return a;
}
// Visits of a, b and y, or none.
EXPORT void chain(const int64_t* p, const float* x, const float* expand, const float* filter,
                  const float* project, const float* bias, float* y, float* of_a, float* of_b,
                  float* of_y, void* scratch, void* pool) {
  const Bias after_a = {bias, of_a, p[4]}, after_b = {bias, of_b, p[4]};
  const Sink sink = {y, of_y, project ? p[7] : p[4]};
  ChainArgs a = of(p, x, expand, filter, project, scratch, pool);
  if (of_y) {
    a.after_expand = {shift, &after_a}, a.after_depthwise = {shift, &after_b};
    a.epilogue = {doubled, &sink};
  } else {
    a.y = y;
  }
  chain_f32(a);
}
// a = clamp(x * expand + bias), b = clamp(depthwise(a) + bias), y = clamp(b * project + bias +
// residual) in registers.
EXPORT void finished(const int64_t* p, const float* x, const float* expand, const float* filter,
                     const float* project, const float* bias, float* y, const float* residual,
                     float*, float*, void* scratch, void* pool) {
  ChainArgs a = of(p, x, expand, filter, project, scratch, pool);
  a.finish_expand = a.finish_depthwise = {bias, nullptr, -1, 2, true, false, nullptr, nullptr};
  a.finish = {bias, residual, -20, 30, true, false, nullptr, nullptr};
  a.y = y;
  chain_f32(a);
}
EXPORT int64_t scratch_bytes(int64_t k, int64_t w, int64_t mid, int32_t expand, int32_t project,
                             int32_t threads) {
  return chain_scratch_bytes(k, w, mid, expand, project, threads);
}
EXPORT int64_t strip() { return CHAIN_STRIP; }
"""
)


@dataclass(frozen=True)
class Case:
    """One chain; ``oc`` 0 ends it with the depthwise convolution, ``c`` 0 begins it there."""

    n: int
    h: int
    w: int
    c: int
    mid: int
    oc: int
    k: int = 3
    s: int = 1
    ph: int = 1
    pw: int = 1
    end_h: int = 1
    end_w: int = 1

    @property
    def window(self) -> Shape:
        return Shape(
            self.n, self.h, self.w, self.mid, self.mid, self.k, self.k, self.s, self.s,
            ph=self.ph, pw=self.pw, end_h=self.end_h, end_w=self.end_w, groups=self.mid,
        )  # fmt: skip


@dataclass(frozen=True)
class Data:
    """An input and weights in a framework's layout."""

    x: np.ndarray
    expand: np.ndarray
    filter: np.ndarray
    project: np.ndarray
    bias: np.ndarray

    @staticmethod
    def of(case: Case) -> Data:
        rng = np.random.default_rng(case.h * 100 + case.mid)
        mid, c = case.mid, case.c or case.mid
        return Data(
            normal(rng, case.n, 1, case.h, case.w, c),
            normal(rng, mid, c, 1, 1, 1),
            normal(rng, mid, 1, 1, case.k, case.k),
            normal(rng, max(case.oc, 1), mid, 1, 1, 1),
            normal(rng, mid),
        )

    def changed(self, function: np.ufunc) -> Data:
        """Every array through ``function``."""
        parts = (self.x, self.expand, self.filter, self.project, self.bias)
        return Data(*(function(part) for part in parts))


def reference(case: Case, data: Data, shifted: bool) -> np.ndarray:
    """y [n, oh, ow, oc] in float64."""
    d = data.changed(np.float64)
    bias = d.bias if shifted else 0 * d.bias
    value = d.x
    if case.c:
        value = value @ d.expand[:, :, 0, 0, 0].T + bias
    value = conv_reference(value, d.filter, case.window)
    if case.oc:
        value = (value + bias) @ d.project[:, :, 0, 0, 0].T
    return value[:, 0] * (2 if shifted else 1)


class Chains:
    """The compiled wrappers of one machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.library = build(folder, machine, WRAPPERS, CORE)
        self.library.test_pool.restype = ctypes.c_void_p
        self.library.scratch_bytes.restype = ctypes.c_int64

    def scratch_bytes(self, case: Case, threads: int) -> int:
        sizes = map(ctypes.c_int64, (case.k, case.w, case.mid))
        return int(self.library.scratch_bytes(*sizes, case.c > 0, case.oc > 0, threads))

    def run(self, case: Case, data: Data, shifted: bool = False, threads: int = 1) -> np.ndarray:
        """y; checks scratch, bounds, and that each element of it was handed over once."""
        if not shifted:
            return self.call("chain", case, data, (None, None, None), threads)
        _, oh, ow = case.window.out()
        pixels, last = case.n * oh * ow, case.oc or case.mid
        sizes = (case.n * case.h * case.w * case.mid, pixels * case.mid, pixels * last)
        visits = [np.zeros(size, np.float32) for size in sizes]
        y = self.call("chain", case, data, visits, threads)
        assert (visits[2] == 1).all(), "an element was not handed over exactly once"
        assert not case.oc or (visits[1] == 1).all()
        return y

    def call(
        self, name: str, case: Case, data: Data, more: Sequence[np.ndarray | None], threads: int
    ) -> np.ndarray:
        """y; checks scratch and bounds."""
        _, oh, ow = case.window.out()
        last = case.oc or case.mid
        count = self.scratch_bytes(case, threads) // 4
        scratch = aligned_zeros(count + 16)
        scratch[:] = np.nan
        total = case.n * oh * ow * last
        y: np.ndarray = np.full(total + 16, 7, np.float32)
        nr = self.machine.nr
        expand = pack_conv_weights(data.expand[:, :, 0], 1, nr) if case.c else None
        project = pack_conv_weights(data.project[:, :, 0], 1, nr) if case.oc else None
        numbers = integers(
            case.n, case.h, case.w, case.c or case.mid, case.mid, oh, ow, case.oc, case.k, case.s,
            case.ph, case.pw,
        )  # fmt: skip
        arrays = (numbers, data.x, expand, pack_depthwise(data.filter[:, :, 0]), project,
                  data.bias, y, *more, scratch)  # fmt: skip
        pool = ctypes.c_void_p(self.library.test_pool() if threads > 1 else None)
        getattr(self.library, name)(*map(address, arrays), pool)
        assert np.isnan(scratch[count:]).all(), "wrote past its scratch"
        assert (y[total:] == 7).all(), "wrote past its output"
        return y[:total].reshape(case.n, oh, ow, last)


@pytest.fixture(scope="module", params=runnable(), ids=lambda machine: machine.name)
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chains:
    return Chains(tmp_path_factory.mktemp("chain"), request.param)


CASES = {
    "stride 1": Case(1, 13, 31, 12, 40, 24),
    "stride 2": Case(2, 14, 30, 7, 48, 40, s=2, end_h=0, end_w=0),
    "5x5": Case(1, 11, 17, 20, 73, 70, k=5, ph=2, pw=2, end_h=2, end_w=2),
    "5x5 stride 2": Case(1, 12, 61, 3, 16, 5, k=5, s=2, ph=1, pw=2, end_h=2, end_w=1),
    "many channels": Case(1, 5, 6, 17, 300, 150),
    "no padding": Case(1, 9, 9, 8, 20, 8, ph=0, pw=0, end_h=0, end_w=0),
    "pads wider than the window": Case(1, 3, 2, 8, 16, 8, ph=5, pw=4, end_h=4, end_w=6),
    "one column": Case(2, 20, 1, 8, 24, 8),
    "one row": Case(2, 1, 40, 8, 24, 8),
    "a cache period apart": Case(1, 6, 20, 1024, 32, 8),
    "a strip and a pixel": Case(1, 4, 29, 8, 31, 9),
    "expand alone": Case(2, 9, 20, 10, 150, 0),
    "project alone": Case(2, 9, 20, 0, 150, 20, s=2),
    "neither": Case(1, 9, 20, 0, 18, 0),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shifted", [False, True], ids=["plain", "shifted"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_named(native: Chains, case: Case, shifted: bool, threads: int) -> None:
    data = Data.of(case)
    got = native.run(case, data, shifted, threads)
    want = reference(case, data, shifted)
    size = reference(case, data.changed(np.abs), shifted)
    terms = (case.c + 2) + (case.k**2 + 2) + (case.mid + 2 if case.oc else 0)
    assert got.shape == want.shape
    assert (np.abs(got - want) <= terms * 2.0**-24 * size + 1e-37).all()


@pytest.mark.parametrize("name", ["stride 1", "5x5", "many channels", "a strip and a pixel"])
def test_bias_residual_and_clamp_in_registers(native: Chains, name: str) -> None:
    case = CASES[name]
    data = Data.of(case)
    _, oh, ow = case.window.out()
    residual = normal(np.random.default_rng(1), case.n, oh, ow, case.oc) * 9
    d = data.changed(np.float64)
    a = np.clip(d.x @ d.expand[:, :, 0, 0, 0].T + d.bias, -1, 2)
    b = np.clip(conv_reference(a, d.filter, case.window)[:, 0] + d.bias, -1, 2)
    sums = b @ d.project[:, :, 0, 0, 0].T + d.bias[: case.oc] + residual
    want = np.clip(sums, -20, 30)
    assert (want != sums).any() and (want == sums).any()
    got = native.call("finished", case, data, (residual, None, None), 2)
    np.testing.assert_allclose(got, want, atol=1e-6 * case.mid * case.k**2)


def test_generated(native: Chains) -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        k, s = int(rng.choice([3, 5])), int(rng.integers(1, 3))
        n, c, oc = (int(v) for v in (rng.integers(1, 3), rng.integers(0, 40), rng.integers(0, 70)))
        h, w, mid = (int(v) for v in (rng.integers(1, 14), rng.integers(1, 70),
                                      rng.integers(16, 90)))  # fmt: skip
        pads = [int(v) for v in rng.integers(0, k + 1, 4)]
        pads[2], pads[3] = max(pads[2], k - h), max(pads[3], k - w)
        test_named(native, Case(n, h, w, c, mid, oc, k, s, *pads), bool(rng.integers(2)), 2)


def test_what_is_not_finite_goes_where_the_definition_says(native: Chains) -> None:
    case = CASES["stride 1"]
    data = Data.of(case)
    data.x[0, 0, 5, 7, 3], data.x[0, 0, 0, 30, 0] = np.nan, np.inf
    data.filter[2, 0, 0, 0, 1] = np.inf  # zeros of the padding times infinity
    with np.errstate(invalid="ignore"):
        want = reference(case, data, shifted=True)
    got = native.run(case, data, shifted=True)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(want))
    assert np.isnan(want).any() and not np.isnan(want).all()


def test_threads_do_not_change_the_bits(native: Chains) -> None:
    case = replace(CASES["5x5"], n=3, h=23)
    data = Data.of(case)
    np.testing.assert_array_equal(
        native.run(case, data, threads=1), native.run(case, data, threads=2)
    )


@pytest.mark.parametrize("case", [Case(0, 4, 4, 4, 16, 4), Case(1, 4, 0, 4, 16, 4)])
def test_nothing_to_do(native: Chains, case: Case) -> None:
    assert np.array_equal(native.run(case, Data.of(case)), reference(case, Data.of(case), False))


def test_scratch_is_what_codegen_reserves(native: Chains) -> None:
    assert native.library.strip() == CHAIN_STRIP
    for case in CASES.values():
        reserved = chain_scratch(case.k, case.w, case.mid, case.c > 0, case.oc > 0)
        assert evaluate(reserved, {THREADS: 3}) == native.scratch_bytes(case, 3)


@pytest.mark.parametrize("machine", [NEON, WASM], ids=lambda machine: machine.name)
def test_compiles_elsewhere(machine: Machine, tmp_path: Path) -> None:
    compile_object(NATIVE / "core_chain.cpp", tmp_path / "chain.o", machine)
