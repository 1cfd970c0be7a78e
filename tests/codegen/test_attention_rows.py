"""Rows of scores that are all -inf: NaN where the model says softmax, fused or not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvil


class Explicit(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return ((q @ k.transpose(-1, -2)) / 2).softmax(-1) @ v


@pytest.mark.parametrize("fusion", [True, False])
def test_a_row_of_nothing_but_minus_infinity_is_nan(fusion: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 5, 4, generator=generator) for _ in range(3))
    k[0, 0] = torch.inf
    q[0, 0] = q[0, 0].abs()
    q[0, 0, 1] = -1.0
    artifact = cuvil.compile(Explicit(), (q, k, v), verify=False, enable_fusion=fusion)
    got = artifact(q, k, v)
    assert np.isnan(got[0, 0, 1].numpy()).all()
    torch.testing.assert_close(got, Explicit()(q, k, v), equal_nan=True)
