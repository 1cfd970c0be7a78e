"""Losses, distances, bags of embeddings and odd pools of torch.nn.functional against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same

Function = Callable[..., Any]


def _check(function: Function, *args: torch.Tensor) -> None:
    model = Fn(function)
    assert_same(capture_torch(model, args), model, args)


def _x(*shape: int) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(*shape)


_INTEGERS = torch.arange(-40, 41).reshape(1, 1, 9, 9)

_CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "pools of integers": (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2)), (_INTEGERS,)),
    "divisor in ceil mode": (
        lambda x: (F.avg_pool2d(x, 4, 3, 1, ceil_mode=True, divisor_override=5),
                   F.avg_pool2d(x, 4, 3, 1, ceil_mode=True, count_include_pad=False)),
        (_x(2, 3, 8, 9),),
    ),
    "places of adaptive pooling": (
        lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), (_x(2, 3, 7, 5),)
    ),
    "places among ties": (
        lambda x: F.adaptive_max_pool1d(x, 2, return_indices=True), (torch.zeros(1, 2, 5),)
    ),
    "circular pads that crop": (
        lambda x: (F.pad(x, (-1, 2, 1, -2), "circular"), F.pad(x, (2, 1, 0, 1), "circular")),
        (_x(1, 2, 5, 6),),
    ),
    "distances": (
        lambda a, b: tuple(torch.cdist(a, b, p=p) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))),
        (_x(2, 4, 3), _x(2, 5, 3)),
    ),
    "distances within": (lambda a: (F.pdist(a), F.pdist(a, 1.0), F.pdist(a[:1])), (_x(5, 3),)),
    "batch norm of a batch": (
        lambda x, w: (F.batch_norm(x, None, None, w, w, True), F.instance_norm(x)),
        (_x(4, 3, 5), _x(3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_functions(name: str) -> None:
    function, args = _CASES[name]
    _check(function, *args)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str) -> None:
    index = torch.tensor([1, 4, 2, 2, 0, 3, 1])
    starts = torch.tensor([0, 2, 2, 5])
    table = _x(6, 3)
    _check(lambda i, o, w: F.embedding_bag(i, w, o, mode=mode), index, starts, table)
    _check(lambda i, o, w: F.embedding_bag(i, w, o, mode=mode, padding_idx=2), index, starts, table)
    _check(lambda i, w: F.embedding_bag(i, w, mode=mode), index[:6].reshape(2, 3), table)
    ends = torch.tensor([0, 3, 7])
    _check(
        lambda i, o, w: F.embedding_bag(i, w, o, mode=mode, include_last_offset=True),
        index, ends, table,
    )  # fmt: skip
    if mode == "sum":
        _check(lambda i, w, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
               index[:6].reshape(2, 3), table, _x(2, 3))  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sampling_of_volumes(padding: str) -> None:
    x, grid = _x(2, 2, 4, 3, 5), _x(2, 2, 3, 2, 3)
    for mode in ("bilinear", "nearest"):
        for corners in (True, False):
            _check(
                lambda x, g, mode=mode, corners=corners: F.grid_sample(
                    x, g, mode=mode, padding_mode=padding, align_corners=corners
                ),
                x, grid,
            )  # fmt: skip


def test_statistics_kept_by_the_model_stay_as_they_are() -> None:
    class Training(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            norm = self.norm
            return F.batch_norm(x, norm.running_mean, norm.running_var, training=True)

    with pytest.raises(UnsupportedOpError, match="changes its running statistics"):
        capture_torch(Training(), (_x(4, 3),))
