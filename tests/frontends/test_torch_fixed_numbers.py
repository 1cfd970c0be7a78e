"""Whole numbers in a model's buffers of which it makes sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cuvil.errors import InvalidModelError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import assert_same


class Padded(nn.Module):
    """Pads to a multiple of a stride that is kept in a buffer, as audio codecs do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 4, 3)
        self.register_buffer("stride", torch.tensor(3), persistent=False)
        self.register_buffer("flag", torch.tensor(True))
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frames = torch.ceil((x.shape[-1] - 1) / self.stride + 1).to(torch.int64)
        extra = frames * self.stride + 1 - x.shape[-1]
        if self.flag:
            x = nn.functional.pad(x, (int(self.stride) // 2, extra))
        return self.conv(x) * self.scale


class Counting(Padded):
    """Also counts its calls."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        self.stride.add_(1)
        return y


class Replacing(Padded):
    """Also replaces one of its numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        self.stride = self.stride + 1
        return y


@pytest.mark.parametrize("length", [9, 10, 11])
def test_sizes_made_of_numbers_in_buffers(length: int) -> None:
    model, x = Padded().eval(), torch.randn(2, 1, length)
    buffers = dict(model.named_buffers())
    assert_same(capture_torch(model, (x,)), model, (x,))
    assert {k: id(v) for k, v in model.named_buffers()} == {k: id(v) for k, v in buffers.items()}


@pytest.mark.parametrize("make", [Counting, Replacing])
def test_a_number_that_the_model_changes_is_state(make: type[Padded]) -> None:
    with pytest.raises(InvalidModelError, match="changes its own state 'stride'"):
        capture_torch(make().eval(), (torch.randn(2, 1, 9),))
