"""Two networks of the shapes that people ship, written from the papers' descriptions: a U-Net
(Ronneberger et al. 2015, with batch norms and padded convolutions) and a one-stage detector with
cross-stage blocks and a path-aggregation neck (Liu et al. 2018; Wang et al. 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def _double(before: int, after: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (before, after):
        layers += [
            nn.Conv2d(channels, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """``[n, 3, h, w]`` to ``[n, classes, h, w]``; h and w are multiples of 2 ** depth."""

    def __init__(self, base: int = 16, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [base << i for i in range(depth + 1)]
        self.down = nn.ModuleList(_double(a, b) for a, b in zip([3, *widths], widths))
        pairs = list(zip(widths[1:], widths))[::-1]
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.join = nn.ModuleList(_double(a, b) for a, b in pairs)
        self.head = nn.Conv2d(base, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([skip, up(x)], 1))
        return self.head(x)


class _Conv(nn.Module):
    def __init__(self, before: int, after: int, size: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, size, stride, size // 2, bias=False)
        self.norm = nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.silu(self.norm(self.conv(x)))


class _CrossStage(nn.Module):
    def __init__(self, before: int, after: int, count: int, residual: bool) -> None:
        super().__init__()
        self.half, self.residual = after // 2, residual
        self.enter = _Conv(before, after)
        self.blocks = nn.ModuleList(
            nn.Sequential(_Conv(self.half, self.half, 3), _Conv(self.half, self.half, 3))
            for _ in range(count)
        )
        self.leave = _Conv((2 + count) * self.half, after)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.enter(x).split(self.half, 1))
        for block in self.blocks:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.leave(torch.cat(parts, 1))


class _Pyramid(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = _Conv(channels, channels // 2)
        self.leave = _Conv(channels * 2, channels)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(nn.functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, 1))


class _Head(nn.Module):
    BINS = 16

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        boxes, scores = max(16, channels // 4, 64), max(channels, min(classes, 100))
        self.boxes = nn.Sequential(
            _Conv(channels, boxes, 3), _Conv(boxes, boxes, 3), nn.Conv2d(boxes, 4 * self.BINS, 1)
        )
        self.scores = nn.Sequential(
            _Conv(channels, scores, 3), _Conv(scores, scores, 3), nn.Conv2d(scores, classes, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        bins = self.boxes(x).reshape(n, 4, self.BINS, -1).softmax(2)
        boxes = (bins * torch.arange(self.BINS, dtype=x.dtype).reshape(1, 1, -1, 1)).sum(2)
        return torch.cat([boxes, self.scores(x).flatten(2).sigmoid()], 1)


class Detector(nn.Module):
    """``[n, 3, h, w]`` to ``[n, 4 + classes, places]``; h and w are multiples of 32."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _Conv(3, 16, 3, 2), _Conv(16, 32, 3, 2), _CrossStage(32, 32, 1, True),
            _Conv(32, 64, 3, 2), _CrossStage(64, 64, 2, True),
        )  # fmt: skip
        self.middle = nn.Sequential(_Conv(64, 128, 3, 2), _CrossStage(128, 128, 2, True))
        self.deep = nn.Sequential(
            _Conv(128, 256, 3, 2), _CrossStage(256, 256, 1, True), _Pyramid(256)
        )
        self.up = nn.Upsample(scale_factor=2)
        self.lift = nn.ModuleList([_CrossStage(384, 128, 1, False), _CrossStage(192, 64, 1, False)])
        self.lower = nn.ModuleList([_Conv(64, 64, 3, 2), _Conv(128, 128, 3, 2)])
        self.settle = nn.ModuleList(
            [_CrossStage(192, 128, 1, False), _CrossStage(384, 256, 1, False)]
        )
        self.heads = nn.ModuleList(_Head(channels, classes) for channels in (64, 128, 256))

    def forward(self, x: Tensor) -> Tensor:
        fine = self.stem(x)
        middle = self.middle(fine)
        deep = self.deep(middle)
        lifted = self.lift[0](torch.cat([self.up(deep), middle], 1))
        fine = self.lift[1](torch.cat([self.up(lifted), fine], 1))
        middle = self.settle[0](torch.cat([self.lower[0](fine), lifted], 1))
        deep = self.settle[1](torch.cat([self.lower[1](middle), deep], 1))
        found = [head(level) for head, level in zip(self.heads, (fine, middle, deep))]
        return torch.cat(found, 2)
