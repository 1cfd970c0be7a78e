"""Arguments that torch takes as numbers, given as sizes or as elements of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
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
def test_right(name: str, kind: type[_OfSize]) -> None:
    made = torch.Generator().manual_seed(1)
    model = kind(FUNCTIONS[name])
    compiled = cuvil.compile(
        model, (torch.randn(5, 6, generator=made), torch.tensor(2)), dynamic_dims={"x": {0: "n"}}
    )
    for rows, number in ((5, 2), (3, 4)):
        given = torch.randn(rows, 6, generator=made), torch.tensor(number)
        torch.testing.assert_close(compiled(*given), model(*given))


class _Degrees(torch.nn.Module):
    """How many edges end in each node, and the sum of their weights."""

    def forward(
        self, x: torch.Tensor, ends: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        nodes = x.shape[0]
        bins = torch.bincount(ends, minlength=nodes)
        return bins, torch.bincount(ends, weights, minlength=nodes - 1)


def test_bins_as_many_as_a_size_says() -> None:
    given = torch.zeros(4, 2), torch.tensor([0, 3, 3]), torch.ones(3)
    dims = {"x": {0: "n"}, "ends": {0: "e"}, "weights": {0: "e"}}
    compiled = cuvil.compile(_Degrees(), given, dynamic_dims=dims)
    for nodes, ends in ((6, [5, 0, 5, 1]), (6, [0]), (2, [7, 7]), (1, [0]), (3, [])):
        each, weights = np.array(ends, np.int64), np.linspace(0.5, 1, len(ends)).astype(np.float32)
        bins, sums = compiled(np.zeros((nodes, 2), np.float32), each, weights)
        np.testing.assert_array_equal(bins, np.bincount(each, minlength=nodes))
        np.testing.assert_allclose(sums, np.bincount(each, weights, nodes - 1), rtol=1e-6)
    with pytest.raises(cuvil.ShapeConstraintError, match="minlength"):
        compiled(np.zeros((0, 2), np.float32), np.zeros(1, np.int64), np.ones(1, np.float32))
