"""Index tensors count from the end once: what lies below -n is an error, as torch has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import cuvil
from cuvil.errors import InputError


class _Written(torch.nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        written = x.clone()
        written[i] = 1
        return written


class _Added(torch.nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.index_put(x, (i, i), torch.ones(()), accumulate=True)


class _Read(torch.nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i, i]


@pytest.mark.parametrize("model", [_Written, _Added, _Read])
def test_a_place_is_counted_from_the_end_once(model: Callable[[], torch.nn.Module]) -> None:
    x = torch.arange(25.0).reshape(5, 5)
    dynamic = {"x": {0: "n"}}
    with cuvil.compile(model(), (x, torch.tensor([-5])), dynamic_dims=dynamic) as artifact:
        for place in (-5, -1, 0, 4):
            at = torch.tensor([place])
            torch.testing.assert_close(artifact(x, at), model()(x, at), rtol=0, atol=0)
        for place in (-11, -10, -6, 5):
            at = torch.tensor([place])
            with pytest.raises(IndexError):
                model()(x, at)
            with pytest.raises(InputError, match="ind"):
                artifact(x, at)
