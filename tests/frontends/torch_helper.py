"""Capture a module, run it through the operators' references, compare with torch itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from cuvil.frontends.torch_export import capture_torch
from cuvil.frontends.torch_export.tree import TreeBuilder
from cuvil.frontends.torch_export.weights import to_numpy
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module


class Fn(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of a nested value, in the order of its tree."""
    builder = TreeBuilder()
    builder.flatten(value)
    return builder.leaves


def interpret(module: Module, tensors: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """The module's outputs for flat inputs."""
    names = module.main.input_names
    return run_module(module, {n: to_numpy(t) for n, t in zip(names, tensors, strict=True)})


def assert_same(
    module: Module,
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """The module's outputs are torch's: shapes, dtypes and values."""
    training = model.training
    model.eval()
    with torch.no_grad():
        expected = tensors_of(model(*args, **(kwargs or {})))
    model.train(training)
    actual = interpret(module, tensors_of((tuple(args), dict(kwargs or {}))))
    assert len(actual) == len(expected)
    for have, want in zip(actual, expected, strict=True):
        wanted = to_numpy(want)
        assert have.shape == wanted.shape, (have.shape, wanted.shape)
        assert have.dtype == wanted.dtype, (have.dtype, wanted.dtype)
        if have.dtype.kind in "biu":
            np.testing.assert_array_equal(have, wanted)
        else:
            np.testing.assert_allclose(
                have.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol
            )


def check(
    function: Any, *args: Any, dynamic: Any = None, sizes: Sequence[Sequence[Any]] = (), **kw: Any
) -> Module:
    """Capture a function (or module) with these arguments and compare there and at ``sizes``
    (further argument lists)."""
    model = function if isinstance(function, torch.nn.Module) else Fn(function)
    module = capture_torch(model, args, {}, dynamic)
    for other in (args, *sizes):
        assert_same(module, model, other, **kw)
    return module
