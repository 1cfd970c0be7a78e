"""PyTorch's own sample inputs: a handful of operators, and what judges them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from tools.opinfo.apart import judge_apart, verdict_of_child
from tools.opinfo.judge import difference, values_differ
from tools.opinfo.run import Verdict, judge_operator
from tools.opinfo.samples import Sample, operators

HANDFUL = (
    "add", "argmax", "clamp", "cumsum", "div.floor_rounding", "fmod", "index_select",
    "nn.functional.gelu", "pow", "remainder", "sum", "where",
)  # fmt: skip


def sample(operator: str, *arguments: Any) -> Sample:
    """A call of ``torch.<operator>``."""
    leaves, spec = pytree.tree_flatten((arguments[0], arguments[1:], {}))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    return Sample(operator, "float32", 0, getattr(torch, operator), tensors, leaves, spec)


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
    expected, call = [torch.zeros(2)], sample("add", torch.zeros(2), torch.zeros(2))
    assert difference(call, expected, [np.zeros(2, np.float32)]) is None
    assert "shape" in str(difference(call, expected, [np.zeros(3, np.float32)]))
    assert "dtype" in str(difference(call, expected, [np.zeros(2)]))
    assert "outputs" in str(difference(call, expected, []))


def test_equal_elements_may_come_in_any_order_but_once() -> None:
    x = torch.tensor([3, 1, 3, 1])
    call = sample("argsort", x)
    expected = [torch.tensor([1, 3, 0, 2])]
    assert difference(call, expected, [np.array([3, 1, 2, 0])]) is None
    for wrong in ([1, 1, 0, 2], [0, 3, 1, 2], [1, 3, 0, 7]):
        assert difference(call, expected, [np.array(wrong)])


def test_one_wrong_call_outweighs_the_right_ones() -> None:
    verdict = Verdict()
    for kind in ("right", "refused", "wrong", "right"):
        verdict.add(kind)
    verdict.settle()
    assert verdict.status == "wrong"


def test_an_operator_apart_gives_its_verdict(infos: dict[str, Any]) -> None:
    verdict = judge_apart(infos["neg"], "neg", most=1)
    assert verdict.status == "right"
    assert verdict.counts == judge_operator(infos["neg"], "neg", most=1).counts


def _sleeps() -> Verdict:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM})
    time.sleep(60)
    return Verdict("right")


def _dies() -> Verdict:
    os.kill(os.getpid(), signal.SIGKILL)
    return Verdict("right")


@pytest.mark.parametrize("judge, status, reason", [(_sleeps, "slow", "after 0.3 s"),
                                                   (_dies, "fault", "ended with -9")])  # fmt: skip
def test_a_child_that_hangs_or_dies_is_told(
    judge: Callable[[], Verdict], status: str, reason: str
) -> None:
    verdict = verdict_of_child(judge, 0.2)
    assert (verdict.status, verdict.counts) == (status, {status: 1})
    assert reason in verdict.reasons[status][0]


def test_what_a_child_breaks_ends_with_it() -> None:
    kept: list[str] = []
    assert verdict_of_child(lambda: Verdict(str(kept.append("broken"))), 5).status == "None"
    assert not kept
