"""Kernels in C that no single operator makes: pieces of a domain, control flow, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.codegen.c.constants import PANEL, READABLE, Constants, panels
from cuvil.codegen.c.library import names_in, written_out
from cuvil.errors import UnsupportedOpError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Weight
from cuvil.ir.types import F32, TensorType, dtype_of
from tests.codegen.c_build import run_c


def _c(model: Any, *inputs: torch.Tensor, **options: Any) -> Any:
    return cuvil.compile(model, inputs, target="c", cache=False, **options)


def test_pieces_of_one_loop_have_names_of_their_own() -> None:
    class Joined(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
            return torch.cat([a * s[0] + 1, b - s[0] * 2, a / s[0]])

    a, b, s = torch.randn(5), torch.randn(7), torch.tensor([1.5])
    found = _c(Joined(), a, b, s)(a.numpy(), b.numpy(), s.numpy())
    np.testing.assert_allclose(found, Joined()(a, b, s).numpy(), rtol=1e-6)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_loops_and_branches(steps: int) -> None:
    class Looped(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            def going(i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
                return i < n

            def trip(i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                return i + 1, v.roll(1) * 2

            _, y = torch.while_loop(going, trip, (torch.zeros((), dtype=torch.int64), x))
            return torch.cond(y.sum() > 0, lambda v: v + 1, lambda v: v * 3, (y,))

    x, n = torch.arange(6.0) - 2, torch.tensor(steps)
    built = _c(Looped(), x, torch.tensor(3), verify=False)
    expected = x.numpy()
    for _ in range(steps):
        expected = np.roll(expected, 1) * 2
    expected = expected + 1 if expected.sum() > 0 else expected * 3
    np.testing.assert_allclose(built(x.numpy(), n.numpy()), expected)


def test_panels_hold_each_column_once() -> None:
    matrix = np.arange(3 * 21, dtype=np.float32).reshape(3, 21)
    packed = panels(matrix)
    first, last = packed[: 3 * PANEL].reshape(3, PANEL), packed[3 * PANEL :].reshape(3, 5)
    np.testing.assert_array_equal(first, matrix[:, :PANEL])
    np.testing.assert_array_equal(last, matrix[:, PANEL:])


def test_large_weights_are_written_as_bytes() -> None:
    constants = Constants()
    values = np.random.default_rng(0).standard_normal(READABLE + 1).astype(np.float32)
    constants.name(Weight(values))
    text = constants.defined()
    assert "little-endian" in text and '\\' in text
    assert "union" not in _small_text(values[:70])


def _small_text(values: Any) -> str:
    constants = Constants()
    constants.name(Weight(values))
    return constants.defined()


def test_numbers_are_written_exactly() -> None:
    values = np.array([0.1, -0.0, 1e-45, 3.4e38, 16777216.0], np.float32)
    text = _small_text(values)
    numbers = text[text.index("{") + 1 : text.index("}")].replace("f", "").split(",")[:-1]
    np.testing.assert_array_equal(np.array([float(n) for n in numbers], np.float32), values)
    assert "-0.0f" in text


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8])
def test_the_ends_of_integers_are_constants(dtype: Any) -> None:
    """INT64_MIN has no literal in C."""
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, 0, 1, limits.max], dtype)

    class Flipped(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x ^ torch.from_numpy(ends)

    x = np.array([0, 1, 2, 0], dtype)
    built = _c(Flipped(), torch.from_numpy(x), verify=False)
    np.testing.assert_array_equal(built(x), x ^ ends)


def test_the_library_gives_what_is_needed_and_no_more() -> None:
    text = written_out(names_in("cuvil_tanh_f32(x)"))
    assert "cuvil_expm1_f32" in text and "double" not in text and "cuvil_log_f32" not in text
    assert text.index("cuvil_exp_reduce_f32(float") < text.index("cuvil_tanh_f32(float")


def test_sizes_that_depend_on_data_are_refused() -> None:
    class Picked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0]

    with pytest.raises(UnsupportedOpError, match="depends on data"):
        _c(Picked(), torch.randn(8))


@pytest.mark.parametrize("layout", [(1, 37, 1), (2, 9, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64])
def test_order(layout: tuple[int, ...], dtype: Any) -> None:
    """Many ties, NaN, infinities; what is first, and everything in order."""
    rng = np.random.default_rng(5)
    x = rng.integers(-4, 4, layout).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[[3, 7, 11]] = np.nan
        x.flat[[5, 6]] = np.inf, -np.inf
    e = Emitter({})
    given = e.input("x", TensorType(layout, dtype_of(x.dtype)))
    found = []
    for k, largest in ((layout[1], False), (layout[1], True), (4, False), (4, True)):
        how = {"k": k, "axis": 1, "largest": largest, "sorted": True}
        found += e.results("topk", given, **how)
    outputs = run_c(e.finish(found, [f"y{i}" for i in range(len(found))]), {"x": x})
    up = np.argsort(x, 1, kind="stable")  # NaN last
    down = layout[1] - 1 - np.flip(np.argsort(np.flip(x, 1), 1, kind="stable"), 1)
    for i, order in enumerate((up, down, up[:, :4], down[:, :4])):
        np.testing.assert_array_equal(outputs[2 * i + 1], order)
        np.testing.assert_array_equal(outputs[2 * i], np.take_along_axis(x, order, 1))


def test_a_gru_takes_weights_at_run_time() -> None:
    rng = np.random.default_rng(6)
    steps, batch, size, hidden = 3, 2, 5, 6
    arrays = {
        "x": rng.standard_normal((steps, batch, size)),
        "w": rng.standard_normal((2, 3 * hidden, size)),
        "r": rng.standard_normal((2, 3 * hidden, hidden)),
    }
    inputs = {name: a.astype(np.float32) for name, a in arrays.items()}
    e = Emitter({})
    given = [e.input(name, TensorType(a.shape, F32)) for name, a in inputs.items()]
    how = {"hidden": hidden, "direction": "bidirectional", "linear_before_reset": False}
    made = e.results("gru", *given, **how)
    found = run_c(e.finish(made[:1], ["y"]), inputs)[0]
    for d in range(2):
        w, r = (inputs[name][d].astype(np.float64) for name in "wr")
        state = np.zeros((batch, hidden))
        for t in range(steps)[:: -1 if d else 1]:
            z, reset, new = np.split(inputs["x"][t].astype(np.float64) @ w.T, 3, -1)
            rz, rr, rh = np.split(r, 3)
            z, reset = (1 / (1 + np.exp(-v - state @ u.T)) for v, u in ((z, rz), (reset, rr)))
            state = (1 - z) * np.tanh(new + (reset * state) @ rh.T) + z * state
            np.testing.assert_allclose(found[t, d], state, rtol=1e-5, atol=1e-6)
