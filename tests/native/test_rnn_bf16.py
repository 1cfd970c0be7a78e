"""Recurrent steps with weights of bf16 against step-by-step float64 definitions."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

from cuvil.codegen.packing_layer import pack_r_bf16

from .harness import Machine, address, aligned_zeros, build, runnable_pairs
from .test_rnn import ACTIVATIONS, I64, KINDS, PTR, Args, Case, Function, reference

WRAPPERS = """
#include "rnn_bf16.hpp"
using namespace cuvil;
EXPORT void run(const RnnArgs* a, void* scratch, void* pool) {
  rnn_bf16(a, 1, scratch, static_cast<Pool*>(pool));
}
EXPORT int64_t scratch_bytes(int32_t kind, int64_t batch, int64_t hidden) {
  return rnn_scratch_bytes(kind, batch, hidden, 1);
}
"""
# A state is multiplied with 16 bits of it, and steps follow one another.
TOLERANCE = 1e-4


class Layers:
    """The compiled steps of one machine."""

    def __init__(self, folder: object, machine: Machine) -> None:
        self.lanes = machine.vec_bytes // 4
        self.library = build(folder, machine, WRAPPERS, ("core_rnn_bf16.cpp",))
        self.library.scratch_bytes.restype = I64
        self.library.test_pool.restype = PTR

    def run(self, case: Case, threads: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Outputs, last state, last cell; the case's weights are rounded first."""
        case.r = case.r.astype(ml_dtypes.bfloat16).astype(np.float32)
        order = {"lstm": [0, 3, 1, 2]}.get(case.kind)  # to ONNX's: i, o, f, c
        h, gates = case.hidden, case.r.reshape(-1, case.hidden, case.hidden)
        onnx = (gates[order] if order else gates).reshape(1, -1, h).astype(ml_dtypes.bfloat16)
        arguments = [case.kind, str(self.lanes), str(int(case.linear_before_reset))]
        packed = pack_r_bf16(onnx, arguments)
        assert packed.dtype == np.uint32
        y = np.full((case.steps, case.batch, h), np.nan, np.float32)
        last, cell = np.full((2, case.batch, h), np.nan, np.float32)
        a = Args()
        a.kind, a.steps, a.batch, a.hidden = KINDS[case.kind], case.steps, case.batch, h
        a.gates_x, a.r_packed = address(case.x), address(packed)
        a.x_step, a.x_batch = case.x.strides[0] // 4, case.x.strides[1] // 4
        a.bias_h = None if case.bias_h is None else address(case.bias_h)
        a.h0 = None if case.h0 is None else address(case.h0)
        a.c0 = None if case.c0 is None else address(case.c0)
        a.linear_before_reset = case.linear_before_reset
        for i, (name, alpha, beta) in enumerate(case.functions):
            a.functions[i] = Function(ACTIVATIONS.index(name), alpha, beta)
        a.y, a.y_step, a.y_batch = address(y), case.batch * h, h
        a.h_last = address(last)
        a.c_last = address(cell) if case.kind == "lstm" else None
        size = self.library.scratch_bytes(a.kind, I64(case.batch), I64(h))
        scratch = aligned_zeros(size // 4 + 16)
        scratch[:] = np.nan  # what is left over from other kernels must not matter
        pool = PTR(self.library.test_pool() if threads > 1 else None)
        self.library.run(ctypes.byref(a), address(scratch), pool)
        assert np.isnan(scratch[size // 4 :]).all(), "wrote past its scratch"
        return y, last, cell


@pytest.fixture(scope="module", params=runnable_pairs(), ids=lambda machine: machine.name)
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Layers:
    return Layers(tmp_path_factory.mktemp("rnn_bf16"), request.param)


@pytest.mark.parametrize("hidden", [1, 5, 16, 33, 64, 129])
@pytest.mark.parametrize("batch", [1, 2, 7])
@pytest.mark.parametrize(
    ("kind", "before"), [("rnn", False), ("lstm", False), ("gru", False), ("gru", True)]
)
def test_sizes(native: Layers, kind: str, before: bool, batch: int, hidden: int) -> None:
    case = Case(kind, 6, batch, hidden, seed=hidden, linear_before_reset=before)
    got = native.run(case, 1 + batch % 2)
    want = reference(case)
    for mine, exact in list(zip(got, want, strict=True))[: 3 if kind == "lstm" else 2]:
        np.testing.assert_allclose(mine, exact, atol=TOLERANCE)


def test_a_state_keeps_sixteen_bits(native: Layers) -> None:
    """One step with weights of one: the sum of states that bf16 alone would round by 2^-9."""
    case = Case("rnn", 1, 1, 32, functions=(("Affine", 1.0, 0.0),))
    case.r[:] = 1.0
    case.x[:] = 0.0
    (got,) = native.run(case)[0][0]
    exact = case.h0.astype(np.float64).sum()
    assert np.abs(got - exact).max() <= 2.0**-15 * np.abs(case.h0).sum()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3.4e38])
def test_states_that_are_not_finite(native: Layers, value: float) -> None:
    case = Case("rnn", 1, 1, 5, functions=(("Affine", 1.0, 0.0),))
    case.r = np.abs(case.r) + np.float32(0.5)
    case.h0[0, 2] = value
    with np.errstate(over="ignore"):
        want = reference(case)[0].astype(np.float32)
    got = native.run(case)[0]
    if np.isfinite(want).all():
        np.testing.assert_allclose(got, want, rtol=2.0**-7)
    else:
        np.testing.assert_array_equal(got[~np.isfinite(want)], want[~np.isfinite(want)])
