"""An extreme of no element is an error of the call, in a branch too where it is taken."""

from __future__ import annotations

import pytest
import torch

import cuvil
from cuvil.errors import ShapeConstraintError


class _Extremes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.max(), x.argmin(), torch.linalg.vector_norm(x, torch.inf)


class _Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return torch.cond(flag, lambda x: x.max() * 2, lambda x: x.sum() + 3, (x,))


_DYNAMIC = {"x": {0: "n"}}


def test_whole_extremes_need_an_element() -> None:
    model, x, nothing = _Extremes(), torch.tensor([1.0, -5, 2]), torch.zeros(0)
    with cuvil.compile(model, (x,), dynamic_dims=_DYNAMIC) as artifact:
        for got, right in zip(artifact(x), model(x), strict=True):
            torch.testing.assert_close(got, right)
        with pytest.raises((RuntimeError, IndexError)):
            model(nothing)
        with pytest.raises(ShapeConstraintError, match="n >= 1.*at least one element"):
            artifact(nothing)


def test_a_branch_asks_where_it_is_taken() -> None:
    x, nothing, yes, no = torch.ones(3), torch.zeros(0), torch.tensor(True), torch.tensor(False)
    with cuvil.compile(_Branch(), (x, yes), dynamic_dims=_DYNAMIC) as artifact:
        assert artifact(x, yes).item() == 2
        assert artifact(nothing, no).item() == 3
        with pytest.raises(ShapeConstraintError, match="n >= 1.*at least one element"):
            artifact(nothing, yes)
