"""Arguments that torch takes as numbers, given as sizes or as elements of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as nn

import cuvil

Function = Callable[[torch.Tensor, Any], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "leaky_relu": nn.leaky_relu,
    "threshold": lambda x, k: nn.threshold(x, k, k),
    "elu": nn.elu,
    "celu": nn.celu,
    "softplus": nn.softplus,
    "hardshrink": nn.hardshrink,
    "bincount": lambda x, k: torch.bincount(torch.arange(3), minlength=k),
}


class _OfSize(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        return self.function(x, x.shape[0])


class _OfItem(_OfSize):
    def forward(self, x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        return self.function(x, number.item())


@pytest.mark.parametrize("kind", [_OfSize, _OfItem])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_right_or_refused(name: str, kind: type[_OfSize]) -> None:
    made = torch.Generator().manual_seed(1)
    model = kind(FUNCTIONS[name])
    try:
        compiled = cuvil.compile(
            model, (torch.randn(5, 6, generator=made), torch.tensor(2)),
            dynamic_dims={"x": {0: "n"}},
        )  # fmt: skip
    except cuvil.CuvilError as error:
        assert name == "bincount" and "minlength must be known at compile time" in str(error)
        return
    for rows, number in ((5, 2), (3, 4)):
        given = torch.randn(rows, 6, generator=made), torch.tensor(number)
        torch.testing.assert_close(compiled(*given), model(*given))
