"""Contractions whose operands are index arithmetic or cheap maps that each reader repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, tensors_of
from tests.models.judge import assert_close, run
from tools.quick_build import quick_build

torch.manual_seed(0)
WEIGHT = torch.randn(4, 3, 3, 3)


def padded_convolution(x: torch.Tensor) -> torch.Tensor:
    padded = torch.nn.functional.pad(x, (1, 2, 0, 1), value=0.5)
    return torch.nn.functional.conv2d(padded, WEIGHT)


def scaled_transposes(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).transpose(2, 3) @ (x + 1)[:, :, :, 1:]


def joined(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x.flip(3)], 2) @ x.transpose(2, 3)


def chosen_rows(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, torch.tensor([2, 0, 1])] @ x.transpose(2, 3)


@pytest.mark.parametrize("function", [padded_convolution, scaled_transposes, joined, chosen_rows])
@pytest.mark.parametrize("fixed", [True, False])
def test_operands(function: Any, fixed: bool, tmp_path: Path) -> None:
    dynamic = None if fixed else {"args_0": {0: "n", 2: "h", 3: "w"}}
    module = capture_torch(Fn(function), (torch.randn(2, 3, 5, 6),), {}, dynamic)
    with quick_build(module, tmp_path) as artifact:
        for shape in ((2, 3, 5, 6), *([] if fixed else [(1, 3, 3, 7), (3, 3, 8, 4)])):
            x = torch.randn(*shape)
            want = [t.numpy() for t in tensors_of(function(x))]
            name = module.main.input_names[0]
            assert_close(run(artifact, {name: x.numpy()}), want, f"{shape}")
