"""What small models take of a microcontroller's flash, code and weights: no more than it was."""

from __future__ import annotations

from typing import Any

import pytest

import cuvil
from tests.e2e.c_models import keyword_spotting, mlp, small_lstm


# bench/c_target.py has another generator's sizes beside them.
@pytest.mark.parametrize(
    ("make", "most", "weights"),
    [
        (mlp, 4204, 4 * (16 * 32 + 32 + 32 * 10 + 10)),
        (lambda: keyword_spotting(64), 93_392, 4 * (40 * 64 + 4 * 73 * 64 + 9 * 64 + 65 * 12)),
        (small_lstm, 23_900, 4 * ((10 + 32 + 1) * 128 + 33 * 4)),
    ],
    ids=["mlp", "keywords", "lstm"],
)
def test_flash_does_not_grow(make: Any, most: int, weights: int) -> None:
    """Weights are those of the layers, normalisation folded in, with one bias each."""
    model, x = make()
    memory = cuvil.compile(model, (x,), target="c").manifest.extra["memory"]
    assert memory["weights"] == weights
    assert memory["flash"] == memory["code"] + memory["weights"] <= most
