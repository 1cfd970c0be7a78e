"""TorchScript modules for tests: in a file, since scripting reads their source."""

from __future__ import annotations

import torch
from torch import nn


class Branches(nn.Module):
    """Numbers decide: an integer argument, an attribute, a list built in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.scale = 0.5

    def forward(
        self, x: torch.Tensor, times: int = 2
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        rows: list[torch.Tensor] = []
        for i in range(times):
            for layer in self.layers:
                x = torch.relu(layer(x)) if i % 2 == 0 else layer(x)
            rows.append(x * self.scale)
        if len(rows) > 1:
            y = torch.stack(rows).sum(0)
        else:
            y = rows[0]
        return y, {"rows": torch.cat(rows, dim=-1)}


class Views(nn.Module):
    """Writes through views, read back through the base."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 1] = y[:, 0] + 1
        y.view(-1)[0] = 7.0
        z = y.t()
        z[2] += 1.0
        return y * 2


class DataBranch(nn.Module):
    """A tensor decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            y = x * 2
        else:
            y = x - 1
        return y + 1


class DataLoop(nn.Module):
    """Halves until the sum is small."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.abs().sum() > 1):
            x = x / 2
        return x


class Counter(nn.Module):
    """Keeps state between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = self.state + x
        return self.state * 2


class Picky(nn.Module):
    """Raises for the wrong width."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(1) != 4:
            raise ValueError("needs four columns")
        return x + 1


class Saves(nn.Module):
    """Writes a file."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, "stolen.pt")
        return x


class CountedLoop(nn.Module):
    """A tensor or a counter ends it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        i = 0
        while bool(x.norm() < 10) and i < 20:
            x = x + 1
            i += 1
        return x * 2 + i


class Halvings(nn.Module):
    """Gives how many trips a loop makes that a tensor ends, and another number."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, dict[str, int]]:
        i = 0
        while bool(x.abs().max() > 1):
            x = x / 2
            i += 1
        return x, i, {"twice": 2 * i}


class Decode(nn.Module):
    """A list that grows in a loop that a tensor may end."""

    def forward(self, h: torch.Tensor, most: int) -> torch.Tensor:
        found: list[torch.Tensor] = []
        for _ in range(most):
            h = h.roll(1, 0) * 0.5
            token = h.argmax(-1)
            found.append(token)
            if bool((token == 3).all()):
                break
        return torch.stack(found, 1)


class LSTM(nn.Module):
    """A layer in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(5, 7, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.layer(x)
        return y


class ProjectedLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(5, 7, 2, proj_size=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.layer(x)
        return y


class GRU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(5, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.layer(x)
        return y
