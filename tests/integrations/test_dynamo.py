"""Cuvil as a backend of torch.compile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cuvil.integrations.dynamo import backend


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3))


def test_a_model_runs_compiled(caplog: pytest.LogCaptureFixture) -> None:
    model = _model().eval()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    x = torch.randn(5, 8)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "cuvil"):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)
    assert not caplog.records


def test_gradients_stay_with_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    model = _model()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    with caplog.at_level(logging.WARNING, "cuvil"):
        compiled(torch.randn(5, 8)).sum().backward()
    assert next(model.parameters()).grad is not None
    assert "gradients are wanted" in caplog.text
