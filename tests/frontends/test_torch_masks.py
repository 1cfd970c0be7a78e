"""Values written where a mask holds: as many as it says, none among them."""

from __future__ import annotations

import pytest
import torch

import cuvil
from cuvil.errors import InputError


class _Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        written, rows, kept = x.clone(), x.clone(), x > 0
        written[kept] = x[kept] * 2
        chosen = x[:, 0] > 0
        rows[chosen] = x[chosen] - 1
        return written, rows, x.masked_scatter(kept, x[kept] * 3)


class _Given(torch.nn.Module):
    def forward(self, x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        written = x.clone()
        written[x > 0] = values
        return written


def test_a_mask_may_hold_nowhere() -> None:
    model = _Doubled()
    mixed = torch.tensor([[1.0, -2, 3, -4], [-1.0, 2, -3, 4], [5.0, 6, 7, -8]])
    with cuvil.compile(model, (mixed,)) as artifact:
        for x in (mixed, -mixed, -mixed.abs(), mixed.abs(), torch.full((3, 4), torch.nan)):
            for got, right in zip(artifact(x), model(x), strict=True):
                torch.testing.assert_close(got, right, rtol=0, atol=0, equal_nan=True)


def test_values_of_dynamic_length_are_as_many_as_the_mask_holds() -> None:
    x, model = torch.tensor([1.0, -1, 2, -3]), _Given()
    with cuvil.compile(model, (x, torch.ones(2)), dynamic_dims={"values": {0: "k"}}) as artifact:
        for given, count in ((x, 2), (x, 1), (-x, 2), (x.abs(), 4), (x.abs() - 2.5, 1)):
            values = torch.arange(1.0, count + 1)
            torch.testing.assert_close(artifact(given, values), model(given, values))
        for count in (3, 5):
            with pytest.raises(RuntimeError):
                model(x, torch.ones(count))
            with pytest.raises(InputError):
                artifact(x, torch.ones(count))


def test_more_places_than_values_are_an_error() -> None:
    x, values = torch.tensor([1.0, -1, 2, -3]), torch.tensor([10.0, 20])
    with cuvil.compile(_Given(), (x, values)) as artifact:
        assert artifact(x, values).tolist() == [10, -1, 20, -3]
        with pytest.raises(InputError, match="looked up"):
            artifact(x.abs(), values)
