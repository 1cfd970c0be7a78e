"""PyTorch's own sample inputs: a handful of operators, and what judges them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tools.opinfo.judge import difference, values_differ
from tools.opinfo.run import Verdict, judge_operator
from tools.opinfo.samples import operators

HANDFUL = (
    "add", "argmax", "clamp", "cumsum", "div.floor_rounding", "fmod", "index_select",
    "nn.functional.gelu", "pow", "remainder", "sum", "where",
)  # fmt: skip


@pytest.fixture(scope="module")
def infos() -> dict[str, Any]:
    return operators()


@pytest.mark.parametrize("name", HANDFUL)
def test_a_handful(infos: dict[str, Any], name: str) -> None:
    verdict = judge_operator(infos[name], name, most=6)
    assert verdict.status == "right", verdict.reasons


@pytest.mark.parametrize(
    "want, have",
    [
        ([1.0, np.nan], [1.0, 2.0]),
        ([np.inf], [-np.inf]),
        ([1.0], [np.nan]),
        ([1.0, 1e-3], [1.0, 1.02e-3 + 2e-5]),
        ([1, 2], [1, 3]),
    ],
)
def test_the_judge_rejects(want: list[float], have: list[float]) -> None:
    dtype = np.int64 if isinstance(want[0], int) else np.float32
    assert values_differ(np.array(want, dtype), np.array(have, dtype))


def test_the_judge_compares_types() -> None:
    expected = [torch.zeros(2)]
    assert difference("add", expected, [np.zeros(2, np.float32)]) is None
    assert "shape" in str(difference("add", expected, [np.zeros(3, np.float32)]))
    assert "dtype" in str(difference("add", expected, [np.zeros(2)]))
    assert "outputs" in str(difference("add", expected, []))


def test_one_wrong_call_outweighs_the_right_ones() -> None:
    verdict = Verdict()
    for kind in ("right", "refused", "wrong", "right"):
        verdict.add(kind)
    verdict.settle()
    assert verdict.status == "wrong"
