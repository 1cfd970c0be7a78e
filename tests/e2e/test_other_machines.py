"""What is built for another machine, and installations that lack a package."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import cuvil
from cuvil import __main__ as command
from cuvil.errors import ArtifactError, InvalidModelError, TargetError
from cuvil.package.format import open_package
from tests.verify.models import small_model

MODEL, EXAMPLE = torch.nn.Linear(3, 2), (torch.ones(2, 3),)


@pytest.fixture
def no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


@pytest.mark.usefixtures("no_emulator")
def test_another_machines_artifact_is_saved_and_not_called(tmp_path: Path) -> None:
    built = cuvil.compile(MODEL, EXAMPLE, target="aarch64", verify=False)
    (path,) = built.save(tmp_path / "net.cuvilpkg")
    package = open_package(path)
    assert package.manifest.target.startswith("aarch64")
    package.close()
    assert [s.shape for s in built.inputs + built.outputs] == [(2, 3), (2, 2)]
    with pytest.raises(TargetError, match="for another machine"):
        built(np.ones((2, 3), np.float32))
    with pytest.raises(ArtifactError, match="the package is for aarch64"):
        cuvil.load(path)


@pytest.mark.usefixtures("no_emulator")
def test_another_machines_artifact_cannot_be_verified_here() -> None:
    with pytest.raises(TargetError, match="can't be verified") as caught:
        cuvil.compile(MODEL, EXAMPLE, target="aarch64")
    assert "verify=False" in caught.value.hint
    assert "qemu-aarch64 is not installed" in str(caught.value)


def _without(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find(name: str, *rest: Any) -> Any:
        return None if name in names else real(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_missing_framework_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(small_model(), str(tmp_path / "net.onnx"))
    _without(("onnx",), monkeypatch)
    with pytest.raises(InvalidModelError, match="needs the package onnx") as caught:
        cuvil.compile(tmp_path / "net.onnx")
    assert 'pip install "cuvil[onnx]"' in caught.value.hint


def test_the_command_without_its_packages_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _without(("typer",), monkeypatch)
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: the command line needs typer: pip install typer\n"


def test_the_package_runs_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "cuvil", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == cuvil.__version__
