"""A model is only a test of a compiler if what it gives depends on all of its layers."""

from __future__ import annotations

import torch

from tools.lively import calibrate, enliven, says_something


class Faint(torch.nn.Module):
    """As architectures are initialised: scales of 1e-6, zeros, statistics of nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(4, 4, 3, padding=1) for _ in range(12))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(4) for _ in range(12))
        self.scale = torch.nn.Parameter(torch.full((4, 1, 1), 1e-6))
        self.place = torch.nn.Parameter(torch.zeros(4, 8, 8))
        for conv in self.convs:
            torch.nn.init.normal_(conv.weight, std=0.02)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms):
            x = norm(conv(x)).relu() * self.scale + 0.1 * self.place
        return x


def test_what_fades_away_is_noticed_and_brought_to_life() -> None:
    torch.manual_seed(0)
    model, x = Faint().eval(), torch.randn(2, 4, 8, 8)
    assert not says_something(model(x))
    enliven(model)
    calibrate(model, {"x": x})
    assert not model.norms[0].training
    with torch.no_grad():
        before = model(x)
        assert says_something(before)
        for weight in model.parameters():
            kept = weight.clone()
            weight.mul_(1.5)
            assert not torch.allclose(model(x), before, rtol=1e-3, atol=1e-4)
            weight.copy_(kept)


def test_what_is_not_finite_or_no_number_says_nothing() -> None:
    assert not says_something({"x": torch.tensor([1.0, float("nan")])})
    assert not says_something((torch.arange(3),))
    assert says_something((torch.arange(3), torch.tensor([0.0, 1.0])))
