"""The first bit of a number, of NaN and zero too: kept, and seen, by whatever runs the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvil
from cuvil.frontends.torch_export import capture_torch
from cuvil.frontends.torch_export.weights import to_numpy
from tests.frontends.torch_helper import interpret

# A number of each kind as the fraction of an f64, from which the bits of all types are made.
_BITS = {
    torch.bfloat16: (torch.int16, 0x7FC0), torch.float16: (torch.int16, 0x7E00),
    torch.float32: (torch.int32, 0x7FC00000), torch.float64: (torch.int64, 0x7FF8 << 48),
}  # fmt: skip
_SIGNS = np.array([False, True, False, True, False, True, False, True, False, True])


class Signs(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one = torch.ones_like(x)
        return (
            torch.signbit(x), torch.copysign(one, x), torch.signbit(torch.copysign(x, -one)),
            torch.signbit(x.abs()), torch.signbit(-x), torch.signbit(torch.copysign(x, one)),
        )  # fmt: skip


def _numbers(dtype: torch.dtype) -> torch.Tensor:
    """Pairs of a number and its negative: 1, 0, NaN, infinity and the least denormal."""
    whole, nan = _BITS[dtype]
    inf = torch.tensor(float("inf"), dtype=dtype).view(whole)
    half = torch.stack(
        [torch.ones((), dtype=dtype).view(whole), torch.tensor(0, dtype=whole),
         torch.tensor(nan, dtype=whole), inf, torch.tensor(1, dtype=whole)]
    )  # fmt: skip
    return torch.stack([half, half | torch.iinfo(whole).min], dim=1).flatten().view(dtype)


@pytest.mark.parametrize("dtype", list(_BITS))
@pytest.mark.parametrize("by", ["native", "c", "reference"])
def test_signs(dtype: torch.dtype, by: str) -> None:
    x, model = _numbers(dtype), Signs()
    if by == "reference":
        found = interpret(capture_torch(model, (x,)), [x])
    else:
        options = {"target": "c"} if by == "c" else {}
        artifact = cuvil.compile(model, (x,), cache=False, **options)
        found = [to_numpy(t) if isinstance(t, torch.Tensor) else t for t in artifact(x)]
    ones = np.where(_SIGNS, -1.0, 1.0)
    wanted = (_SIGNS, ones, np.ones(10), np.zeros(10), ~_SIGNS, np.zeros(10))
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(have).astype(np.float64), want)


def test_nan_of_either_sign_passes_verification() -> None:
    for dtype in _BITS:
        cuvil.compile(_Bit(), (_numbers(dtype),), cache=False)


class _Bit(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.signbit(x)
