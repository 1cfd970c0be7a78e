"""Long sums of f32 stay near those of f64: errors don't grow with the number of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as nn

import cuvil

COUNT = 1_000_000
_TENTHS = torch.full((COUNT,), 0.1)  # 0.1 added one by one gives 100958


class _Of(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def _near(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, **how: Any) -> None:
    with cuvil.compile(_Of(function), (x,), verify=False, **how) as artifact:
        got = artifact(x)
    right = function(x.double())
    np.testing.assert_allclose(got.double().numpy(), right.numpy(), rtol=4e-6)


@pytest.mark.parametrize("shape", [(COUNT,), (1000, 1000), (COUNT // 8, 8)])
def test_sums_and_means_of_everything(shape: tuple[int, ...]) -> None:
    _near(lambda x: torch.stack([x.sum(), x.mean(), x.square().sum()]), _TENTHS.view(shape))


def test_sums_along_axes() -> None:
    _near(lambda x: x.sum(0), _TENTHS.view(-1, 4))
    _near(lambda x: x.sum((0, 2)), _TENTHS.view(-1, 5, 10))
    _near(lambda x: x.mean(1), _TENTHS.view(10, -1))


def test_of_a_size_known_at_run_time() -> None:
    size = cuvil.Dim("n", min=1)
    with cuvil.compile(
        _Of(lambda x: x.sum() + 0), (_TENTHS,), verify=False, dynamic_dims=[{0: size}]
    ) as artifact:
        for count in (1, 63, 64, 65, 16383, 16384, 16385, 16448, 100_001, COUNT):
            x = torch.rand(count, generator=torch.Generator().manual_seed(count))
            np.testing.assert_allclose(artifact(x).item(), x.double().sum().item(), rtol=2e-6)


def test_infinities_and_nans_of_long_sums() -> None:
    with cuvil.compile(_Of(lambda x: x.sum(1)), (_TENTHS.view(4, -1),), verify=False) as artifact:
        x = _TENTHS.view(4, -1).clone()
        x[0, 70_000], x[1, 3], x[1, 200_000], x[2, 249_999] = np.inf, np.inf, -np.inf, np.nan
        got = artifact(x)
    assert got[0] == np.inf and got[1].isnan() and got[2].isnan() and abs(got[3] - 25_000) < 0.1


@pytest.mark.parametrize("channels", [1, 16])
def test_averages_over_large_windows(channels: int) -> None:
    side = int((COUNT // channels) ** 0.5)
    x = torch.full((1, channels, side, side), 0.1)
    _near(lambda x: nn.avg_pool2d(x, side - 1, 1), x)
    _near(lambda x: nn.adaptive_avg_pool2d(x, 1), x)
