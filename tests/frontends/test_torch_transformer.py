"""torch.nn's transformers with masks of every kind, at lengths that stay open."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import cuvil

_CAUSAL = nn.Transformer.generate_square_subsequent_mask


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
        self.net = nn.TransformerEncoder(layer, 2)

    def forward(self, target: Tensor, source: Tensor) -> Tensor:
        found: Tensor = self.net(target, mask=_CAUSAL(target.shape[1]))
        return found


class _Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 24), 2)

    def forward(self, target: Tensor, source: Tensor) -> Tensor:
        target, source = target.transpose(0, 1), source.transpose(0, 1)
        found: Tensor = self.net(target, source, tgt_mask=_CAUSAL(target.shape[0]))
        return found


class _Whole(nn.Module):
    """A source whose steps count where they begin with a positive number."""

    def __init__(self, said: bool | None) -> None:
        super().__init__()
        self.net = nn.Transformer(16, 2, 1, 2, 24, batch_first=True)
        self.said = said

    def forward(self, target: Tensor, source: Tensor) -> Tensor:
        left_out = source[..., 0] <= 0
        found: Tensor = self.net(
            source, target, tgt_mask=_CAUSAL(target.shape[1]), tgt_is_causal=self.said,
            src_key_padding_mask=left_out, memory_key_padding_mask=left_out,
        )  # fmt: skip
        return found


class _Banded(_Encoder):
    """A mask that is not causal, from numbers."""

    def forward(self, target: Tensor, source: Tensor) -> Tensor:
        at = torch.arange(target.shape[1])
        found: Tensor = self.net(target, mask=(at[:, None] - at).abs() > 1)
        return found


@pytest.mark.parametrize(
    "model", [_Encoder(), _Decoder(), _Whole(None), _Whole(True), _Banded()],
    ids=["encoder", "decoder", "whole", "said to be causal", "banded"],
)  # fmt: skip
def test_masks_need_not_be_looked_at(model: nn.Module) -> None:
    torch.manual_seed(1)
    model = model.eval()

    def inputs(length: int) -> tuple[Tensor, Tensor]:
        source = torch.randn(2, 4, 16)
        source[:, 0, 0] = 1  # a row without any step is NaN
        return torch.randn(2, length, 16), source

    with cuvil.compile(model, inputs(5), dynamic_dims={"target": {1: "length"}}) as artifact:
        exact = model.double()
        for length in (1, 5, 8):
            given = inputs(length)
            right = exact(*(x.double() for x in given)).float()
            torch.testing.assert_close(artifact(*given), right, rtol=1e-5, atol=1e-5)
