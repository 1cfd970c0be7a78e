"""What this process can't load is verified, called and saved through a runner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import (
    ArtifactError,
    InputError,
    ShapeConstraintError,
    TargetError,
    VerificationError,
)
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


def test_tensors_in_give_tensors_out(monkeypatch: pytest.MonkeyPatch) -> None:
    built = _built(monkeypatch, Runner("fake", lambda: None, _linear), dynamic_dims=["batch"])
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = built(torch.from_numpy(x))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), x @ WEIGHT.T + BIAS, rtol=1e-6)
    (named,) = built.run({built.inputs[0].name: torch.from_numpy(x)}).values()
    assert isinstance(named, torch.Tensor)
    with pytest.raises(InputError, match="float64"):
        built(torch.from_numpy(x).double())
    with pytest.raises(InputError, match="there is no input 'y'"):
        built(x, y=x)


def test_meta_tensors_give_shapes_without_a_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    built = _built(monkeypatch, None, verify=False, dynamic_dims=["batch"])
    found = built(torch.empty(5, 3, device="meta"))
    assert found.is_meta and found.shape == (5, 2) and found.dtype is torch.float32


class Nested(torch.nn.Module):
    """Arguments and a result in dicts, in a type that NumPy has not."""

    def forward(self, s: torch.Tensor, d: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"twice": d["k"] * 2 + s}


def _twice(package: Package, inputs: Mapping[str, Any]) -> dict[str, Any]:
    s, k = (inputs[spec.name] for spec in package.manifest.inputs)
    return {package.manifest.outputs[0].name: k * k.dtype.type(2) + s}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nested_arguments_are_taken_as_the_model_takes_them(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    table = {("library", "aarch64"): Runner("fake", lambda: None, _twice)}
    monkeypatch.setattr(registry, "RUNNERS", table)
    s, r = torch.tensor(1.0, dtype=dtype), torch.arange(6.0).reshape(2, 3).to(dtype)
    example = (s, {"k": r})
    built = cuvil.compile(Nested(), example, target="aarch64", cache=False, verify=False)
    assert isinstance(built, Built)
    for found in (built(s, {"k": r}), built(s, d={"k": r}), built(s=s, d={"k": r.t().t()})):
        assert list(found) == ["twice"]
        torch.testing.assert_close(found["twice"], r * 2 + s)
    with pytest.raises(InputError, match="has no key 'k'"):
        built(s, {})


def test_a_closed_one_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    with _built(monkeypatch, Runner("fake", lambda: None, _linear), verify=False) as built:
        np.testing.assert_allclose(built(x), x @ WEIGHT.T + BIAS, rtol=1e-6)
    assert "closed" in repr(built)
    for use in (lambda: built(x), lambda: built.save(tmp_path / "net.cuvilpkg")):
        with pytest.raises(ArtifactError, match="was closed"):
            use()


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
    # The model is at hand: forms of other targets are built from it.
    assert caught.value.hint == "the forms are .cuvilpkg, .so, .ll, .wasm, .c, .onnx"
    built.source = None
    with pytest.raises(TargetError, match="not available for this artifact") as caught:
        built.save(tmp_path / "net.exe")
    assert caught.value.hint == "the forms are .cuvilpkg, .so"
