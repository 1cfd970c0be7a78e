"""The microcontroller's example: built for the board and run there, it gives the model's scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.e2e.mcu import missing
from tests.examples.conftest import example


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_keywords_on_the_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keywords = example("mcu/keywords")
    program, expected = keywords.build(tmp_path)
    assert "'ram': 64000" in capsys.readouterr().out
    scores, ticks = keywords.run(program)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    assert scores.shape == (12,) and abs(scores.sum() - 1) < 1e-5
    assert 50_000 < ticks < 300_000  # of 40 instructions, for 2.7 million multiplications
