"""Models in C on a Cortex-M4 and a Cortex-M7: what the boards give is what the model gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from tests.e2e.c_models import keyword_spotting, mlp, small_lstm
from tests.e2e.mcu import M4, M7, Board, measured_on, missing, run_on

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def _check(make: Any, board: Board, folder: Path, most: int) -> None:
    model, x = make()
    built = cuvil.compile(model, (x,), target="c")
    with torch.no_grad():
        expected = model.double()(x.double()).numpy()
    inputs = {built.inputs[0].name: x.numpy()}
    (found,), instructions = run_on(board, built, inputs, folder)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    here = built.run(inputs)
    np.testing.assert_allclose(found, here[built.outputs[0].name], rtol=1e-5, atol=1e-7)
    assert 0 < instructions < most


# Four instructions a multiplication, and what is around them.
CASES = pytest.mark.parametrize(
    ("make", "most"), [(mlp, 40_000), (keyword_spotting, 2_500_000), (small_lstm, 300_000)],
    ids=["mlp", "keyword_spotting", "lstm"],
)  # fmt: skip


@CASES
def test_on_a_cortex_m4(make: Any, most: int, tmp_path: Path) -> None:
    _check(make, M4, tmp_path, most)


@CASES
def test_on_a_cortex_m7(make: Any, most: int, tmp_path: Path) -> None:
    _check(make, M7, tmp_path, most)


@CASES
def test_for_size_on_a_cortex_m4(make: Any, most: int, tmp_path: Path) -> None:
    """The same numbers, in up to twice as many instructions, and no more stack than is said."""
    model, x = make()
    built = cuvil.compile(model, (x,), target="c")
    inputs = {built.inputs[0].name: x.numpy()}
    (found,), instructions, used = measured_on(M4, built, inputs, tmp_path, "-Os")
    with torch.no_grad():
        expected = model.double()(x.double()).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert 0 < instructions < 2 * most
    said = built.manifest.extra["memory"]["stack"]
    assert used <= said <= 1.5 * used + 128
