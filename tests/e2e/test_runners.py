"""What this process can't load is verified, called and saved through a runner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InputError, ShapeConstraintError, TargetError, VerificationError
from cuvil.package.format import Package
from cuvil.runners import registry
from cuvil.runners.base import Runner
from cuvil.runners.built import Built

MODEL = torch.nn.Linear(3, 2)
EXAMPLE = (torch.ones(2, 3),)
WEIGHT, BIAS = (p.detach().numpy() for p in (MODEL.weight, MODEL.bias))


def _linear(package: Package, inputs: Mapping[str, Any]) -> dict[str, Any]:
    (x,) = inputs.values()
    return {package.manifest.outputs[0].name: x @ WEIGHT.T + BIAS}


def _built(monkeypatch: pytest.MonkeyPatch, runner: Runner | None, **options: Any) -> Built:
    table = {} if runner is None else {("library", "aarch64"): runner}
    monkeypatch.setattr(registry, "RUNNERS", table)
    made = cuvil.compile(MODEL, EXAMPLE, target="aarch64", cache=False, **options)
    assert isinstance(made, Built)
    return made


def test_a_build_is_verified_and_called_through_its_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    built = _built(monkeypatch, Runner("fake", lambda: None, _linear), dynamic_dims=["batch"])
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(built(x), x @ WEIGHT.T + BIAS, rtol=1e-6)
    with pytest.raises(InputError, match="float64"):
        built(x.astype(np.float64))
    with pytest.raises(ShapeConstraintError):
        built(np.ones((2, 5), np.float32))


def test_a_wrong_build_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(package: Package, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value + 1 for name, value in _linear(package, inputs).items()}

    with pytest.raises(VerificationError, match="disagrees"):
        _built(monkeypatch, Runner("fake", lambda: None, wrong))


def test_what_a_runner_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Runner("fake", lambda: "the program fake is not installed", _linear)
    with pytest.raises(TargetError, match="the program fake is not installed"):
        _built(monkeypatch, lacking)
    built = _built(monkeypatch, lacking, verify=False)
    with pytest.raises(TargetError, match="the program fake is not installed"):
        built(np.ones((2, 3), np.float32))


def test_a_form_of_another_kind_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = _built(monkeypatch, None, verify=False)
    with pytest.raises(TargetError, match="not available for this artifact") as caught:
        built.save(tmp_path / "net.exe")
    assert ".cuvilpkg, .so" in caught.value.hint
