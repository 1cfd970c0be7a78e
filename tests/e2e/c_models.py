"""Small models of the kinds that run on microcontrollers."""

from __future__ import annotations

import torch
from torch import nn


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Two layers and a softmax."""
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10), nn.Softmax(-1))
    return layers.eval(), torch.randn(3, 16)


def _block(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.BatchNorm2d(channels),
        nn.ReLU(), nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels), nn.ReLU(),
    )  # fmt: skip


def keyword_spotting(channels: int = 16) -> tuple[nn.Module, torch.Tensor]:
    """DS-CNN of Y. Zhang et al., "Hello Edge: keyword spotting on microcontrollers", 2017, with
    fewer channels."""
    torch.manual_seed(2)
    first = nn.Sequential(
        nn.Conv2d(1, channels, (10, 4), stride=2, padding=(5, 1)), nn.BatchNorm2d(channels),
        nn.ReLU(),
    )  # fmt: skip
    blocks = [_block(channels) for _ in range(4)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 12), nn.Softmax(-1)]
    model = nn.Sequential(first, *blocks, *head)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.running_mean)
    return model.eval(), torch.randn(1, 1, 49, 10)


class SmallLstm(nn.Module):
    """An LSTM over a sequence, and a layer on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(10, 32, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def small_lstm() -> tuple[nn.Module, torch.Tensor]:
    """An LSTM of 32 units over 9 steps."""
    torch.manual_seed(3)
    return SmallLstm().eval(), torch.randn(1, 9, 10)


class Encoder(nn.Module):
    """An embedding and a layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embed(ids))


class Convolutions(nn.Module):
    """Strides, a transposed convolution, groups, dilation, one dimension, a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.turned = nn.ConvTranspose2d(16, 6, 4, stride=2, padding=1)
        self.grouped = nn.Conv2d(6, 12, 3, groups=3, dilation=2, padding=2)
        self.flat = nn.Conv1d(4, 5, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.sigmoid(self.grouped(self.turned(torch.relu(self.first(x)))))
        y = nn.functional.max_pool2d(y, 3, 2, 1)
        return y, self.flat(y.flatten(2)[:, :4])
