"""Operators of several steps on f16 and bf16: computed in f32 and rounded once, as torch does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as nn

import cuvil

Function = Callable[..., torch.Tensor]


class _Of(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def _row(size: int, scale: float, shift: float = 0.0) -> torch.Tensor:
    made = torch.Generator().manual_seed(size)
    return torch.randn(2, size, generator=made) * scale + shift


# What computing step by step in f16 would take out of range, or to zero.
_BIG, _SMALL = _row(50, 200.0), _row(50, 1e-4)
CASES: dict[str, tuple[Function, list[torch.Tensor]]] = {
    "normalize": (nn.normalize, [_row(384, 30.0)]),
    "normalize, small": (nn.normalize, [_row(384, 1e-3)]),
    "norm": (lambda x: x.norm(), [_BIG]),
    "norm, small": (lambda x: x.norm(), [_SMALL]),
    "vector_norm": (lambda x: torch.linalg.vector_norm(x, dim=1), [_BIG]),
    "norm of order 3": (lambda x: x.norm(3), [_row(50, 60.0)]),
    "matrix_norm": (torch.linalg.matrix_norm, [_BIG]),
    "cosine_similarity": (nn.cosine_similarity, [_BIG, _row(50, 200.0, 9.0)]),
    "pairwise_distance": (nn.pairwise_distance, [_BIG, _row(50, 100.0, 9.0)]),
    "dist": (torch.dist, [_BIG, _row(50, 100.0, 9.0)]),
    "std": (lambda x: x.std(1), [_BIG]),
    "var of many": (lambda x: x.var(), [_row(35000, 1.0)]),
    "var, mean": (lambda x: torch.stack(torch.var_mean(x, 1)), [_row(50, 30.0)]),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), [_BIG]),
    "weight_norm": (lambda x: torch._weight_norm(x, x[:, :1].abs(), 0), [_BIG]),
    "batch_norm": (lambda x: nn.batch_norm(x, None, None, training=True), [_row(4, 200.0)]),
    "addmm, alpha": (
        lambda a, b: torch.addmm(b[:, :2], a, b.T, alpha=0.01), [_BIG, _row(50, 100.0)],
    ),
    "hypot": (lambda x: torch.hypot(x, x), [_BIG]),
    "logit": (lambda x: torch.logit(torch.sigmoid(x)), [_row(50, 1.0)]),
    "softplus": (nn.softplus, [_row(50, 3.0)]),
    "logaddexp": (lambda x: torch.logaddexp(x, x + 1), [_row(50, 3.0)]),
}  # fmt: skip


def _check(function: Function, inputs: list[torch.Tensor], dtype: torch.dtype) -> None:
    given = tuple(x.to(dtype) for x in inputs)
    right = function(*(x.double() for x in given))
    with cuvil.compile(_Of(function), given, verify=False) as artifact:
        got = artifact(*given)
    step = torch.finfo(dtype).eps  # one rounding, and that of what a case itself has in steps
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), right, rtol=3 * step, atol=3 * step)


@pytest.mark.parametrize("name", CASES)
def test_f16_is_rounded_once(name: str) -> None:
    _check(*CASES[name], torch.float16)


def test_bf16_far_from_zero() -> None:
    for function in (lambda x: x.var(0), lambda x: torch.std_mean(x, 0)[0]):
        _check(function, [_row(64, 2.0, 300.0)], torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_is_rounded_to_decimals_as_by_torch(dtype: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)

    def rounded(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.round(decimals=k) for k in (0, 1, 2, 5, 8, -1, -4)])

    with cuvil.compile(_Of(rounded), (every,), verify=False) as artifact:
        got = artifact(every)
    torch.testing.assert_close(got, rounded(every), rtol=0, atol=0, equal_nan=True)
