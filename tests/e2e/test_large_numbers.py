"""Results are rounded where the model's operators round them, which large numbers show."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import cuvil

LOWEST = torch.finfo(torch.float32).min
FAR = {"f32": 1e-5, "bf16": 3e-2}


class _Softmax(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * x).softmax(-1)


class _Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 0.3).softmax(-1)


class _Root(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(a * a - b * b)


class _Explicit(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> object:
        return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + m).softmax(-1) @ v


class _Fused(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> object:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=m)


@pytest.mark.parametrize("target", ["native", "x86_64_v3"])
def test_a_softmax_of_products_stays_one(target: str) -> None:
    """The maximum is the rounded product, and so is what it is subtracted from."""
    torch.manual_seed(3)
    x = torch.randn(4, 33)
    squares = cuvil.compile(_Softmax(), (x,), target=target)
    scaled = cuvil.compile(_Scaled(), (x,), target=target)
    for size in (1.0, 2e4, 5e4, 1e5, 1e15):
        np.testing.assert_allclose(squares(x * size), _Softmax()(x * size), atol=1e-6)
    for number in (-1e10, -1e30, LOWEST, 1e30):
        row = torch.full((4, 33), number)
        np.testing.assert_allclose(scaled(row), np.full((4, 33), 1 / 33), rtol=1e-6)


def test_a_difference_of_equal_squares_is_nothing() -> None:
    y = torch.rand(4, 33) * 1000
    root = cuvil.compile(_Root(), (torch.rand(4, 33) + 2, torch.rand(4, 33)))
    assert (root(y, y) == 0).all()


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("net", [_Explicit, _Fused])
@pytest.mark.parametrize("queries", [3, 37])  # row by row, and in tiles
def test_masks_of_the_lowest_number(
    net: type[torch.nn.Module], precision: str, queries: int
) -> None:
    """A row that is masked by it everywhere attends to all alike; -inf alone takes a key away."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, 16) for n in (queries, 37, 37))
    free = torch.zeros(queries, 37)
    compiled = cuvil.compile(net(), (q, k, v, free), precision=precision)
    all_low = torch.full((queries, 37), LOWEST)
    some = torch.where(torch.arange(37) < 20, free, all_low)
    one_row = some.clone()
    one_row[1] = LOWEST
    for mask in (free, all_low, all_low * 0.7, all_low * 0.5, some, one_row):
        want = net()(q, k, v, mask)
        assert (compiled(q, k, v, mask) - want).abs().max() <= FAR[precision] * v.abs().max()


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("keys", [3, 37, 800])
def test_scores_of_any_size(precision: str, keys: int) -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 2, n, 16) for n in (9, keys, keys))
    free = torch.zeros(9, keys)
    compiled = cuvil.compile(_Fused(), (q, k, v, free), precision=precision)
    for size in (1e9, 1e12, 1e20):
        got = compiled(q, k * size, v, free)
        best = (q @ k.transpose(-1, -2)).argmax(-1)  # which gets all the weight
        want = torch.take_along_dim(v, best[..., None], -2)
        close = ((got - want).abs() <= FAR[precision] * v.abs().max()).all(-1)
        assert torch.isfinite(got).all()
        assert close.double().mean() >= (1.0 if precision == "f32" else 0.8)  # near ties round
