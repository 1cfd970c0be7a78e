"""Assertions of a model about its data are checked in each call."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import ShapeConstraintError, UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn


def lengths_fit(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    torch._check(n.max().item() <= x.shape[0])
    torch._check(n.min().item() > -3)
    return x * 2


def test_an_assertion_holds_or_the_call_fails() -> None:
    x = torch.tensor([1.0, -2.0, 0.5, 4.0])
    model = cuvil.compile(
        Fn(lengths_fit), (x, torch.tensor([1, -2])), dynamic_dims={"args_0": {0: "rows"}}
    )
    np.testing.assert_array_equal(model(x, torch.tensor([4, -2])).numpy(), [2, -4, 1, 8])
    longer = torch.cat([x, x[:1]])
    np.testing.assert_array_equal(model(longer, torch.tensor([5, 0])).numpy(), [2, -4, 1, 8, 2])
    for broken in ([5, 0], [0, -3]):
        with pytest.raises(ShapeConstraintError, match="an assertion of the model about its data"):
            model(x, torch.tensor(broken))


def test_a_number_that_is_only_checked_is_read_in_each_call() -> None:
    def check(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        torch._check(n.min().item() >= 0)
        torch._check(n.sum().item() >= 0)
        torch._check(n.max().item() <= 5)
        return x * 2

    x = torch.arange(3.0)
    model = cuvil.compile(Fn(check), (x, torch.tensor([3, 2])))
    np.testing.assert_array_equal(model(x, torch.tensor([0, 5])).numpy(), [0, 2, 4])
    for broken in ([-1, 5], [0, 6], [2, -3]):
        with pytest.raises(ShapeConstraintError, match="a number read|an assertion of"):
            model(x, torch.tensor(broken))


def test_an_assertion_that_numbers_are_equal() -> None:
    def both(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        torch._check(n.max().item() == x.shape[0])
        torch._check(n.min().item() == 2)
        return x * 2

    x = torch.arange(3.0)
    model = cuvil.compile(
        Fn(both), (x, torch.tensor([3, 2])), dynamic_dims={"args_0": {0: "rows"}}, verify=False
    )
    np.testing.assert_array_equal(model(x, torch.tensor([2, 3])).numpy(), [0, 2, 4])
    for broken in ([2, 4], [1, 3]):
        with pytest.raises(ShapeConstraintError, match="an assertion of the model about its data"):
            model(x, torch.tensor(broken))


@pytest.mark.parametrize("full", [False, True])
def test_variances_of_a_loss_are_checked_in_each_call(full: bool) -> None:
    x, target, variance = torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4)
    loss = torch.nn.GaussianNLLLoss(full=full)
    with cuvil.compile(loss, (x, target, variance)) as compiled:
        for var in (variance, torch.zeros(3, 4), variance * 5):
            np.testing.assert_allclose(compiled(x, target, var), loss(x, target, var), rtol=1e-5)
        variance[1, 2] = -0.5
        with pytest.raises(ShapeConstraintError, match="an assertion of the model about its data"):
            compiled(x, target, variance)


def test_an_assertion_about_a_fraction_is_refused() -> None:
    def small(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.sum().item() < 1.5)
        return x

    with pytest.raises(UnsupportedOpError, match="no comparison of whole numbers"):
        capture_torch(Fn(small), (torch.zeros(3),))
