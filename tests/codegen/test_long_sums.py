"""Long sums of f32 stay near those of f64: errors don't grow with the number of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional as nn

import cuvil

COUNT = 1_000_000
_TENTHS = torch.full((COUNT,), 0.1)  # 0.1 added one by one gives 100958


class _Of(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def _all_near(functions: Sequence[Callable[[torch.Tensor], torch.Tensor]]) -> None:
    """Each of the tenths as in f64; all are compiled together."""
    together = _Of(lambda x: [function(x) for function in functions])
    with cuvil.compile(together, (_TENTHS,), verify=False) as artifact:
        found = artifact(_TENTHS)
    for number, (got, function) in enumerate(zip(found, functions, strict=True)):
        right = function(_TENTHS.double())
        np.testing.assert_allclose(got.double(), right, rtol=4e-6, err_msg=f"function {number}")


def test_sums_and_means_of_everything_and_along_axes() -> None:
    whole = [
        lambda x, s=s: torch.stack([x.view(s).sum(), x.view(s).mean(), x.view(s).square().sum()])
        for s in ((COUNT,), (1000, 1000), (COUNT // 8, 8))
    ]
    _all_near([
        *whole, lambda x: x.view(-1, 4).sum(0), lambda x: x.view(-1, 5, 10).sum((0, 2)),
        lambda x: x.view(10, -1).mean(1),
    ])  # fmt: skip


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


def test_averages_over_large_windows() -> None:
    def image(x: torch.Tensor, channels: int) -> torch.Tensor:
        side = int((COUNT // channels) ** 0.5)
        return x[: channels * side * side].view(1, channels, side, side)

    _all_near([
        lambda x: nn.avg_pool2d(image(x, 1), 999, 1), lambda x: nn.avg_pool2d(image(x, 16), 249, 1),
        lambda x: nn.adaptive_avg_pool2d(image(x, 1), 1),
        lambda x: nn.adaptive_avg_pool2d(image(x, 16), 1),
    ])  # fmt: skip
