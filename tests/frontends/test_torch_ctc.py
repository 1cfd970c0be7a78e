"""torch's ctc_loss: against torch, and against a sum over all paths."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same, interpret
from tools.quick_build import quick_build

STEPS, BATCH, CLASSES = 7, 4, 5
INPUTS, WANTED = torch.tensor([7, 3, 0, 5]), torch.tensor([3, 2, 0, 3])
TARGETS = torch.tensor([[1, 1, 2], [2, 3, 4], [1, -7, 99], [3, 3, 3]])
IN_A_ROW = torch.tensor([1, 1, 2, 2, 3, 3, 3, 3])


def _probabilities(steps: int = STEPS, batch: int = BATCH) -> torch.Tensor:
    torch.manual_seed(steps)
    return torch.randn(steps, batch, CLASSES).log_softmax(2)


def _over_all_paths(probs: torch.Tensor, target: list[int], blank: int) -> float:
    """-log of the sum of p over every path that gives the target, in f64."""
    steps, classes = probs.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=steps):
        merged = [label for label, _ in itertools.groupby(path)]
        if [label for label in merged if label != blank] == target:
            total += float(np.exp(sum(float(probs[t, k]) for t, k in enumerate(path))))
    return -float(np.log(total)) if total else float("inf")


@pytest.mark.parametrize("blank, target", [(0, [1, 1]), (2, [0, 1, 0]), (1, []), (0, [1, 1, 1])])
def test_the_sum_over_all_paths(blank: int, target: list[int]) -> None:
    probs = torch.randn(4, 1, 3, dtype=torch.float64).log_softmax(2)
    targets = torch.tensor([target], dtype=torch.int64)
    model = Fn(lambda p, t: F.ctc_loss(p, t, [4], [len(target)], blank, reduction="none"))
    (loss,) = interpret(capture_torch(model, (probs, targets)), (probs, targets))
    np.testing.assert_allclose(loss, [_over_all_paths(probs[:, 0], target, blank)], rtol=1e-12)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("targets", [TARGETS, IN_A_ROW])
def test_reductions_and_infinite_losses(
    reduction: str, zero_infinity: bool, targets: torch.Tensor
) -> None:
    def loss(*args: Any) -> torch.Tensor:
        return F.ctc_loss(*args, reduction=reduction, zero_infinity=zero_infinity)

    args = (_probabilities(), targets, INPUTS, WANTED)
    assert_same(capture_torch(Fn(loss), args), Fn(loss), args)


def test_lengths_as_numbers_and_no_batch() -> None:
    many = Fn(lambda p, t: F.ctc_loss(p, t, [7, 3, 0, 5], [3, 2, 0, 3], reduction="sum",
                                      zero_infinity=True))  # fmt: skip
    args = (_probabilities(), IN_A_ROW)
    assert_same(capture_torch(many, args), many, args)
    one = Fn(lambda p, t: F.ctc_loss(p, t, torch.tensor(7), torch.tensor(3), reduction="none"))
    single = (_probabilities()[:, 0], TARGETS[0])
    assert_same(capture_torch(one, single), one, single)


def test_every_size_is_symbolic(tmp_path: Path) -> None:
    model = Fn(lambda *args: F.ctc_loss(*args, reduction="none"))
    sizes = {"args_0": {0: "t", 1: "n"}, "args_1": {0: "n", 1: "s"}, "args_2": {0: "n"},
             "args_3": {0: "n"}}  # fmt: skip
    example = (_probabilities(), TARGETS, INPUTS, WANTED)
    artifact = quick_build(capture_torch(model, example, dynamic=sizes), tmp_path, 0)
    long = (_probabilities(40, 2), torch.tensor([[1, 2, 3, 3, 4]] * 2), torch.tensor([40, 33]),
            torch.tensor([5, 4]))  # fmt: skip
    for args in (example, long):
        torch.testing.assert_close(artifact(*args), model(*args))
    for inputs, wanted in ((INPUTS + 1, WANTED), (INPUTS - 1, WANTED), (INPUTS, WANTED + 1)):
        with pytest.raises(ShapeConstraintError, match="assertion of the model about its data"):
            artifact(example[0], TARGETS, inputs, wanted)
