"""What the examples' tests share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    """The program examples/NAME.py as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What compile_onnx.py wrote."""
    place = tmp_path_factory.mktemp("examples")
    example("compile_onnx").main(place)
    return place


def inputs(rows: int) -> np.ndarray:
    """What the programs of examples/embed make up."""
    return (np.arange(rows * 8, dtype=np.float32) % 7 - 3).reshape(rows, 8)
