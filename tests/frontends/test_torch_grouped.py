"""Mixtures of experts: rows in groups, a matrix a group."""

from __future__ import annotations

import pytest
import torch

import cuvil


# transformers registers an operator of this name; here it stands alone.
@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(input.size(0), weight.size(2), dtype=input.dtype)
    start = 0
    for i, end in enumerate(offs.tolist()):
        out[start:end] = input[start:end] @ weight[i]
        start = end
    return out


@grouped.register_fake
def _(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    return input.new_empty(input.size(0), weight.size(2))


class Experts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4, 5))

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.ops.transformers.grouped_mm_fallback(x, self.weight, ends)


@pytest.mark.parametrize("ends", [[2, 2, 7], [0, 0, 0], [7, 7, 7], [1, 3, 5], [0, 7, 7]])
def test_rows_of_groups(ends: list[int]) -> None:
    torch.manual_seed(0)
    model = Experts()
    x, offsets = torch.randn(7, 4), torch.tensor(ends, dtype=torch.int32)
    if ends[0] == 1:
        x[6] = torch.nan  # behind the last group
    artifact = cuvil.compile(model, (x, offsets), dynamic_dims={"x": {0: "rows"}})
    torch.testing.assert_close(artifact(x, offsets), model(x, offsets))
