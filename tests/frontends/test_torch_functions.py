"""Plain functions of tensors, compiled as modules are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InvalidModelError


def _doubled(x: torch.Tensor, shift: float = 1.0) -> torch.Tensor:
    return x * 2 + shift


X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "a function": (_doubled, lambda x: x * 2 + 1),
    "a lambda": (lambda x: (x @ x.T).relu(), lambda x: np.maximum(x @ x.T, 0)),
    "of torch": (torch.sin, np.sin),
    "partial": (functools.partial(_doubled, shift=3.0), lambda x: x * 2 + 3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_compiled(name: str) -> None:
    function, formula = FUNCTIONS[name]
    dims = [{0: "n"}]
    for example in (X, torch.from_numpy(X)):
        artifact = cuvil.compile(function, (example,), dynamic_dims=dims)
        for x in (X, X[:2]):
            wanted = formula(x.astype(np.float64))
            np.testing.assert_allclose(artifact(x), wanted, rtol=1e-5, atol=1e-5)


def test_parameters_have_their_names() -> None:
    artifact = cuvil.compile(lambda left, right: left - right, (X, X))
    np.testing.assert_array_equal(artifact(right=X, left=2 * X), X)


def test_modules_that_it_holds_are_in_evaluation_mode() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(4))
    wanted = X.astype(np.float64) / np.sqrt(1 + 1e-5)
    for function in (lambda x: net(x), net.forward):
        found = cuvil.compile(function, (torch.from_numpy(X),))(X)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        assert net.training and net[0].training


@pytest.mark.parametrize(
    "function", [np.exp, lambda x: np.exp(x), lambda x: x.astype(np.float64)]
)
def test_what_computes_with_numpy_is_refused(function: Any) -> None:
    with pytest.raises(InvalidModelError, match="computes with NumPy|know how") as caught:
        cuvil.compile(function, (X,))
    assert "torch.compile(f" in str(caught.value) or function is np.exp


def test_a_closure_may_hold_anything_or_nothing_yet() -> None:
    weights = torch.arange(4.0)

    def function(x: torch.Tensor) -> torch.Tensor:
        return later(x) if x.dim() > 5 else x * weights

    found = cuvil.compile(function, (torch.from_numpy(X),))(X)
    np.testing.assert_array_equal(found, X * np.arange(4, dtype=np.float32))

    def later(x: torch.Tensor) -> torch.Tensor:
        return x
