"""Recurrent kernels against step-by-step float64 definitions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from cuvil.codegen import packing_rnn

from . import harness_core as hc

F64 = npt.NDArray[np.float64]
I64, I32, PTR = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
F32, F64 = ctypes.c_float, ctypes.c_double
KINDS = {"rnn": 0, "lstm": 1, "gru": 2}
ACTIVATIONS = hc.words(
    "Sigmoid Tanh Relu LeakyRelu ThresholdedRelu ScaledTanh HardSigmoid Elu Softsign Softplus "
    "Affine"
)

SOURCE = """
#include "rnn.hpp"
using namespace cuvil;
EXPORT void run(const RnnArgs* a, int32_t n, void* scratch, Pool* pool) {
  rnn_f32(a, n, scratch, pool);
}
EXPORT int64_t scratch_bytes(int32_t kind, int64_t batch, int64_t hidden, int32_t directions) {
  return rnn_scratch_bytes(kind, batch, hidden, directions);
}
EXPORT int64_t args_size() { return sizeof(RnnArgs); }
EXPORT Pool* create(int32_t n) { return pool_create(n); }
EXPORT void destroy(Pool* p) { pool_destroy(p); }
"""


class Function(ctypes.Structure):
    _fields_ = [("kind", I32), ("alpha", F64), ("beta", F64)]


class Args(ctypes.Structure):
    _fields_ = [
        ("kind", I32),
        ("steps", I64),
        ("batch", I64),
        ("hidden", I64),
        ("gates_x", PTR),
        ("x_step", I64),
        ("x_batch", I64),
        ("r_packed", PTR),
        ("bias_h", PTR),
        ("peepholes", PTR),
        ("h0", PTR),
        ("c0", PTR),
        ("lengths", PTR),
        ("reverse", ctypes.c_bool),
        ("linear_before_reset", ctypes.c_bool),
        ("input_forget", ctypes.c_bool),
        ("clip", F32),
        ("functions", Function * 3),
        ("y", PTR),
        ("y_step", I64),
        ("y_batch", I64),
        ("h_last", PTR),
        ("c_last", PTR),
    ]


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    core = ["core_rnn.cpp", "core_threads.cpp", "core_mem.cpp"]
    loaded = hc.load(hc.build(tmp_path_factory.mktemp("rnn"), SOURCE, core))
    loaded.create.restype, loaded.create.argtypes = PTR, [I32]
    loaded.destroy.argtypes = [PTR]
    loaded.scratch_bytes.restype = loaded.args_size.restype = I64
    assert loaded.args_size() == ctypes.sizeof(Args)
    yield loaded


@dataclass
class Case:
    """One direction of a layer: float32 data, random from `seed`."""

    kind: str
    steps: int
    batch: int
    hidden: int
    seed: int = 0
    reverse: bool = False
    linear_before_reset: bool = False
    input_forget: bool = False
    clip: float = 0.0
    peepholes: bool = False
    lengths: tuple[int, ...] | None = None
    functions: tuple[tuple[str, float, float], ...] = field(default=())
    initial: bool = True
    source: str = "torch"

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        gates, h = packing_rnn.GATES[self.kind], self.hidden

        def draw(*shape: int) -> npt.NDArray[np.float32]:
            return rng.standard_normal(shape).astype(np.float32)

        self.x = draw(self.steps, self.batch, gates * h)
        self.r = draw(gates * h, h) / np.float32(np.sqrt(h))
        self.bias_h = draw(h) if self.kind == "gru" and self.linear_before_reset else None
        self.p = draw(3, h) if self.peepholes else None
        self.h0 = draw(self.batch, h) if self.initial else None
        self.c0 = draw(self.batch, h) if self.initial and self.kind == "lstm" else None
        if not self.functions:
            tanh, sigmoid = ("Tanh", 0.0, 0.0), ("Sigmoid", 0.0, 0.0)
            self.functions = {
                "rnn": (tanh,),
                "gru": (sigmoid, tanh),
                "lstm": (sigmoid, tanh, tanh),
            }[self.kind]


def apply(function: tuple[str, float, float], x: F64) -> F64:
    """ONNX's activation functions."""
    name, a, b = function
    table: dict[str, Callable[[F64], F64]] = {
        "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "Tanh": np.tanh,
        "Relu": lambda v: np.maximum(v, 0),
        "LeakyRelu": lambda v: np.where(v < 0, a * v, v),
        "ThresholdedRelu": lambda v: np.where(v > a, v, 0),
        "ScaledTanh": lambda v: a * np.tanh(b * v),
        "HardSigmoid": lambda v: np.clip(a * v + b, 0, 1),
        "Elu": lambda v: np.where(v > 0, v, a * (np.exp(v) - 1)),
        "Softsign": lambda v: v / (1 + np.abs(v)),
        "Softplus": lambda v: np.log1p(np.exp(v)),
        "Affine": lambda v: a * v + b,
    }
    return table[name](x)


def one_step(case: Case, x: F64, h: F64, c: F64) -> tuple[F64, F64]:
    """The layer's definition for one row."""
    n, r, f = case.hidden, case.r.astype(np.float64), case.functions
    lim = case.clip if case.clip > 0 else np.inf

    def gate(function: tuple[str, float, float], v: F64) -> F64:
        return apply(function, np.clip(v, -lim, lim))

    xs = [x[g * n : (g + 1) * n] for g in range(x.size // n)]
    rs = [r[g * n : (g + 1) * n] for g in range(x.size // n)]
    if case.kind == "rnn":
        return gate(f[0], xs[0] + rs[0] @ h), c
    if case.kind == "lstm":
        p = np.zeros((3, n)) if case.p is None else case.p.astype(np.float64)
        i = gate(f[0], xs[0] + rs[0] @ h + p[0] * c)
        keep = 1 - i if case.input_forget else gate(f[0], xs[1] + rs[1] @ h + p[1] * c)
        c = keep * c + i * gate(f[1], xs[2] + rs[2] @ h)
        return gate(f[0], xs[3] + rs[3] @ h + p[2] * c) * apply(f[2], c), c
    z, reset = gate(f[0], xs[0] + rs[0] @ h), gate(f[0], xs[1] + rs[1] @ h)
    if case.linear_before_reset:
        assert case.bias_h is not None
        new = gate(f[1], xs[2] + reset * (rs[2] @ h + case.bias_h))
    else:
        new = gate(f[1], xs[2] + rs[2] @ (reset * h))
    return (1 - z) * new + z * h, c


def reference(case: Case) -> tuple[F64, F64, F64]:
    """All steps of all rows: outputs, last hidden and last cell state."""
    y = np.zeros((case.steps, case.batch, case.hidden))
    zero = np.zeros((case.batch, case.hidden))
    hs = (zero if case.h0 is None else case.h0.astype(np.float64)).copy()
    cs = (zero if case.c0 is None else case.c0.astype(np.float64)).copy()
    for b in range(case.batch):
        length = case.steps if case.lengths is None else case.lengths[b]
        order = range(length - 1, -1, -1) if case.reverse else range(length)
        for t in order:
            hs[b], cs[b] = one_step(case, case.x[t, b].astype(np.float64), hs[b], cs[b])
            y[t, b] = hs[b]
    return y, hs, cs


def run(lib: ctypes.CDLL, cases: list[Case], pool: int | None = None) -> list[tuple]:
    """Run one or two directions; returns per direction (outputs, last h, last c)."""
    _, width = hc.native_features()
    args, keep, results = (Args * len(cases))(), [], []
    for a, case in zip(args, cases, strict=True):
        kind, h = KINDS[case.kind], case.hidden
        packed = packing_rnn.pack_recurrent(case.r, case.kind, width // 4, case.linear_before_reset)
        lengths = None if case.lengths is None else np.array(case.lengths, np.int64)
        y = np.full((case.steps, case.batch, h), np.nan, np.float32)
        last, cell = np.full((2, case.batch, h), np.nan, np.float32)
        keep += [packed, lengths]
        a.kind, a.steps, a.batch, a.hidden = kind, case.steps, case.batch, h
        a.gates_x, a.r_packed = hc.address(case.x), hc.address(packed)
        a.x_step, a.x_batch = case.x.strides[0] // 4, case.x.strides[1] // 4
        a.bias_h, a.peepholes = hc.address(case.bias_h), hc.address(case.p)
        a.h0, a.c0, a.lengths = (hc.address(v) for v in (case.h0, case.c0, lengths))
        a.reverse, a.linear_before_reset = case.reverse, case.linear_before_reset
        a.input_forget, a.clip = case.input_forget, case.clip
        for i, (name, alpha, beta) in enumerate(case.functions):
            a.functions[i] = Function(ACTIVATIONS.index(name), alpha, beta)
        a.y, a.y_step, a.y_batch = hc.address(y), case.batch * h, h
        a.h_last = hc.address(last)
        a.c_last = hc.address(cell) if case.kind == "lstm" else None
        results.append((y, last, cell))
    first = cases[0]
    size = lib.scratch_bytes(KINDS[first.kind], I64(first.batch), I64(first.hidden), len(cases))
    scratch = hc.aligned(size // 4 + 16)
    scratch[:] = np.nan  # what is left over from other kernels must not matter
    scratch[size // 4 :] = 12345.0
    lib.run(args, len(cases), hc.address(scratch), PTR(pool))
    assert (scratch[size // 4 :] == 12345.0).all(), "wrote past its scratch"
    return results


def check(case: Case, got: tuple, atol: float = 3e-6) -> None:
    want = reference(case)
    np.testing.assert_allclose(got[0], want[0], rtol=3e-6, atol=atol)
    np.testing.assert_allclose(got[1], want[1], rtol=3e-6, atol=atol)
    if case.kind == "lstm":
        np.testing.assert_allclose(got[2], want[2], rtol=3e-6, atol=atol)


@pytest.mark.parametrize("hidden", [1, 5, 16, 33, 64])
@pytest.mark.parametrize("batch", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("kind", "before"), [("rnn", False), ("lstm", False), ("gru", False), ("gru", True)]
)
def test_sizes(lib: ctypes.CDLL, kind: str, before: bool, batch: int, hidden: int) -> None:
    case = Case(kind, 6, batch, hidden, seed=hidden, linear_before_reset=before)
    check(case, run(lib, [case])[0])


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_and_direction(lib: ctypes.CDLL, kind: str, reverse: bool) -> None:
    case = Case(kind, 5, 4, 20, reverse=reverse, lengths=(5, 0, 3, 1), initial=not reverse)
    check(case, run(lib, [case])[0])


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_activations(lib: ctypes.CDLL, kind: str, name: str) -> None:
    count = len(Case(kind, 1, 1, 1).functions)
    case = Case(kind, 3, 2, 19, seed=3, functions=((name, 0.3, 0.4),) * count)
    check(case, run(lib, [case])[0], atol=1e-5)


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("input_forget", [False, True])
def test_lstm_options(lib: ctypes.CDLL, peepholes: bool, clip: float, input_forget: bool) -> None:
    case = Case("lstm", 4, 3, 37, seed=5, peepholes=peepholes, clip=clip, input_forget=input_forget)
    check(case, run(lib, [case])[0])


@pytest.mark.parametrize("before", [False, True])
def test_gru_clip(lib: ctypes.CDLL, before: bool) -> None:
    case = Case("gru", 4, 3, 21, clip=0.4, linear_before_reset=before)
    check(case, run(lib, [case])[0])


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(("kind", "before"), [("lstm", False), ("gru", False), ("gru", True)])
def test_threads_give_the_same(lib: ctypes.CDLL, kind: str, before: bool, batch: int) -> None:
    cases = [
        Case(kind, 4, batch, 256, seed=1, linear_before_reset=before),
        Case(kind, 4, batch, 256, seed=2, linear_before_reset=before, reverse=True),
    ]
    pool = lib.create(2)
    try:
        for chosen in (cases, cases[:1]):
            for case, alone, together in zip(
                chosen, run(lib, chosen), run(lib, chosen, pool), strict=True
            ):
                check(case, together, atol=1e-5)
                np.testing.assert_allclose(alone[0], together[0], rtol=0, atol=1e-6)
    finally:
        lib.destroy(pool)


def test_nan_stays_in_its_row(lib: ctypes.CDLL) -> None:
    case = Case("lstm", 3, 3, 20, clip=1.0)
    case.x[1, 1, 4] = np.nan
    got = run(lib, [case])[0][0]
    assert np.isnan(got[2, 1]).all()
    clean = got[:, [0, 2]]
    np.testing.assert_allclose(clean, reference(case)[0][:, [0, 2]], rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_against_torch(lib: ctypes.CDLL, kind: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer = (torch.nn.LSTM if kind == "lstm" else torch.nn.GRU)(12, 24)
    x = torch.randn(7, 3, 12)
    with torch.inference_mode():
        want = layer(x)[0].numpy()
    w, r, bw, br = (
        packing_rnn.reorder_gates(getattr(layer, n).detach().numpy(), kind, "torch")
        for n in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    )
    case = Case(kind, 7, 3, 24, linear_before_reset=True, initial=False)
    bias, case.bias_h = packing_rnn.merge_biases(kind, bw, br, True)
    case.x, case.r = (x.numpy() @ w.T + bias).astype(np.float32), r
    np.testing.assert_allclose(run(lib, [case])[0][0], want, rtol=1e-5, atol=2e-6)


def test_onnx_gate_orders() -> None:
    lstm = np.repeat(np.arange(4, dtype=np.float32), 2)  # i, o, f, c
    assert packing_rnn.reorder_gates(lstm, "lstm", "onnx").tolist() == [0, 0, 2, 2, 3, 3, 1, 1]
    gru = np.arange(3, dtype=np.float32)
    assert packing_rnn.reorder_gates(gru, "gru", "onnx").tolist() == [0, 1, 2]
    assert packing_rnn.reorder_gates(gru, "gru", "torch").tolist() == [1, 0, 2]
    assert packing_rnn.reorder_peepholes(gru).ravel().tolist() == [0, 2, 1]


def test_packing_refuses_a_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"\[4 \* hidden, hidden\]"):
        packing_rnn.pack_recurrent(np.zeros((12, 4), np.float32), "lstm", 16)
