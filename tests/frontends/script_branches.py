"""TorchScript modules whose branches and loops a tensor decides: in a file, to be scripted."""

from __future__ import annotations

import torch
from torch import nn


class LayerInside(nn.Module):
    """A branch reads weights, a buffer, a number and an attribute that was written before."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("shift", torch.arange(4.0))
        self.state = torch.ones(4)
        self.n = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = self.state + x
        self.n = 4
        if bool(x.sum() > 0):
            y = self.layer(x) * self.n + self.state
            if bool(x.sum() > 8):
                y = y * self.state + self.shift
        else:
            y = self.shift - x
        while bool(y.abs().sum() > 5):
            y = y / 2 + 0.01 * self.shift
        return y


class WrittenInside(nn.Module):
    """What a branch makes itself may be written to, and lists may grow in it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            y = x.clone()
            y[0] = 7.0
            parts = [y, x]
            parts[1] = x * 2
            parts.append(x)
            y = torch.stack(parts).sum(0)
        else:
            y = x
        return y


class Leaving(nn.Module):
    """Trips are left out and the loop is left, as a tensor says; so is the function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for i in range(6):
            x = x * 0.5
            if bool(x.sum() > 3):
                continue
            y = y + x * i
            if bool(x.sum() < 1):
                break
        if bool(y.sum() > 0):
            return y * 2
        return y - 1


class Lists(nn.Module):
    """Lists of numbers, changed where nothing depends on a tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = [1, 2, 3, 5]
        a.reverse()
        del a[0]
        a += [9, 4]
        a.remove(9)
        b = a.copy()
        b.clear()
        return x * a[0] + a[3] + len(b)


class WritesTensor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            self.state = self.state + x  # refused
        return self.state * 2


class WritesNumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            self.n = 3  # refused
        else:
            self.n = 5
        return x * self.n


class CountsTrips(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.abs().sum() > 1):
            x = x / 2
            self.n += 1  # refused
        return x * self.n


class SetsItem(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = [1, 2]
        if bool(x.sum() > 0):
            a[0] = 7  # refused
        return x * a[0]


class Clears(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = [1, 2]
        if bool(x.sum() > 0):
            a.clear()  # refused
        return x * len(a)


class Adds(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = [1, 2]
        if bool(x.sum() > 0):
            a += [4]  # refused
        return x * len(a)


class WritesInPlace(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        if bool(x.sum() > 0):
            y[0] = 7.0  # refused
        return y


class WritesBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            self.total.add_(x)  # refused
        return self.total * 2


class DoublesInPlace(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        while bool(y.abs().sum() < 30):
            y *= 2  # refused
        return y


class MayRaise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 1e6):
            raise ValueError("too large")  # refused
        return x * 2


class OneGivesNone(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor | None = None
        if bool(x.sum() > 0):  # refused
            y = x * 2
        return x if y is None else y


class ReturnsInside(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.abs().sum() > 1):  # refused
            x = x * 0.5
            if bool(x.sum() > 2):
                return x * 7
        return x


class Rows(nn.Module):
    """A loop over rows is left as a tensor says: their indices are tensors from then on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x[0]
        for i, row in enumerate(x):
            if bool(row.sum() > 10):
                break
            y = y + row * i + x[-1 - i]
        return y


class Triangles(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        i = 0
        while bool(x.sum() < 10):
            i += 1
            x = x.expand(4, 4).triu(i).sum(0) + 1  # refused
        return x


class EachRow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x[0])
        for i in range(x.size(0)):  # as many trips as there are rows
            y = y + x[i] * i
        return y
