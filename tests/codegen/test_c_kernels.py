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
from cuvil.ir.core import Weight


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
    first, last = packed[: 3 * PANEL].reshape(3, PANEL), packed[3 * PANEL :].reshape(3, 8)
    np.testing.assert_array_equal(first, matrix[:, :PANEL])
    np.testing.assert_array_equal(last[:, :5], matrix[:, PANEL:])
    assert not last[:, 5:].any()


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
