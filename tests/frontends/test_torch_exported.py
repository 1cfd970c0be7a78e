"""Modules that torch.export has made before: they have no modes, their eval() raises."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.frontends.torch_export.evaluation import evaluating
from cuvil.integrations.bench.torch_file import Bundle


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.line = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5)
        self.norm.running_mean += torch.arange(4)  # type: ignore[operator]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(self.line(x)))


class Around(torch.nn.Module):
    """An exported module, and one that is to be switched, inside another."""

    def __init__(self, exported: torch.nn.Module) -> None:
        super().__init__()
        self.exported = exported
        self.layers = Layers()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(self.exported(x))


def exported(dynamic: bool = False) -> torch.nn.Module:
    dims = ({0: torch.export.Dim("n")},) if dynamic else None
    return torch.export.export(
        Layers().eval(), (torch.ones(3, 4),), dynamic_shapes=dims
    ).module()


def formula(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """What Layers gives, in NumPy's float64."""
    own = {n: t.detach().double().numpy() for n, t in Layers().state_dict().items()}
    y = x.numpy().astype(np.float64) @ own["line.weight"].T + own["line.bias"]
    y = (y - own["norm.running_mean"]) / np.sqrt(own["norm.running_var"] + 1e-5)
    return y * own["norm.weight"] + own["norm.bias"]


def test_an_exported_module_is_compiled_as_it_is() -> None:
    x = torch.randn(3, 4)
    found = cuvil.compile(exported(), (x,))(x)
    np.testing.assert_allclose(found.detach().numpy(), formula(x), rtol=1e-5, atol=1e-5)


def test_its_dynamic_dims_stay() -> None:
    artifact = cuvil.compile(exported(True), (torch.ones(3, 4),), dynamic_dims={"x": {0: "n"}})
    for n in (1, 3, 7):
        x = torch.randn(n, 4)
        np.testing.assert_allclose(artifact(x).numpy(), formula(x), rtol=1e-5, atol=1e-5)


def test_modules_around_it_are_switched_and_restored() -> None:
    model, x = Around(exported()), torch.randn(3, 4)
    before = [m.training for m in model.modules()]
    found = cuvil.compile(model, (x,))(x)
    assert [m.training for m in model.modules()] == before and model.layers.training
    once = torch.from_numpy(formula(x))
    np.testing.assert_allclose(found.numpy(), formula(once), rtol=1e-4, atol=1e-4)


def test_only_what_says_that_it_has_no_modes_is_left() -> None:
    model = Layers()

    def refuse(self: Any, mode: bool = True) -> Any:
        raise ValueError("a fault of the model's own")

    model.eval = types.MethodType(refuse, model)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="a fault"), evaluating(model):
        pass


def test_a_benchmark_takes_it() -> None:
    model = exported()
    assert Bundle(model, ((), {}), {}, []).module() is model
