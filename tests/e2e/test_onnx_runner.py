"""What runs the models of the target onnx here, and what it can't run."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import ArtifactError
from cuvil.runners import onnx as runner


def test_it_is_named_as_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    assert runner.ONNX_RUNNER.name == runner.runner_name()

    def without(name: str, *more: Any) -> Any:
        return None if name == "onnxruntime" else find(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert runner.runner_name() == "onnx.reference"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: object())
    assert runner.runner_name() == "onnxruntime"


class _Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def test_a_runtime_that_ends_at_no_elements_is_named() -> None:
    """A runtime may give the rows that there aren't, or end; then the message says at what."""
    dims = {"x": {0: "b", 1: "t"}}
    compiled = cuvil.compile(_Layer().eval(), (torch.randn(2, 5, 4),), target="onnx",
                             dynamic_dims=dims)  # fmt: skip
    try:
        assert compiled(np.zeros((0, 5, 4), np.float32)).shape == (0, 5, 3)
    except ArtifactError as error:
        assert "the input 'x' has no elements" in error.message
