"""A folder with small models, a cache of its own, and a way to call the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
from typer.testing import CliRunner

from cuvil.cli.main import app
from tests.frontends.onnx_models import FLOAT, model, node
from tests.verify.models import small_model

FACTORY = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(6, 3)

    def forward(self, x):
        return torch.relu(self.layer(x))

def make():
    return Net(), (torch.ones(2, 6),)

def fails():
    raise RuntimeError("no weights here")
"""


@dataclass(frozen=True)
class Ran:
    """What a call left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output, which must be one JSON document."""
        document: dict[str, Any] = json.loads(self.out)
        return document


Call = Callable[..., Ran]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """net.onnx, unknown.onnx with an operator that no one has, cli_nets.py, a folder."""
    folder = tmp_path_factory.mktemp("cli")
    onnx.save(small_model(), str(folder / "net.onnx"))
    strange = model([node("Cuvilify", ["x"], ["y"], name="odd")], {"x": (FLOAT, [2])}, ["y"])
    onnx.save(strange, str(folder / "unknown.onnx"))
    (folder / "cli_nets.py").write_text(FACTORY)
    (folder / "folder.so").mkdir()
    return folder


@pytest.fixture
def cuvil_cli(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Call]:
    """Runs ``cuvil ARGS`` in that folder."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cuvil-cache"))
    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments: str) -> Ran:
        result = CliRunner().invoke(app, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    yield run


@pytest.fixture
def package(cuvil_cli: Call, place: Path) -> Path:
    """net.onnx compiled, its first dim symbolic from 1 to 8."""
    path = place / "net.cuvilpkg"
    if not path.exists():
        ran = cuvil_cli("compile", "net.onnx", "--dynamic", "x:0=n:1..8", "-o", str(path))
        assert ran.code == 0, ran.err
    return path
