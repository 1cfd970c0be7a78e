"""Known models as ONNX and as LLVM IR: what ONNX Runtime and a built text compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from cuvil.runners.built import Built
from tests.models.judge import assert_close
from tests.runners.test_models import MODELS, compiled_model
from tests.targets.onnx_calls import run_file
from tools import zoo


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "llvm"])
@pytest.mark.parametrize("name", MODELS)
def test_known_models(name: str, target: str, tmp_path: Path) -> None:
    native, inputs = compiled_model(name, "native", tmp_path)
    want = {key: np.array(value) for key, value in native.run(inputs).items()}
    made, _ = compiled_model(name, target, tmp_path)
    assert isinstance(made, Built)
    got = made.run(inputs)
    assert_close([got[key] for key in want], list(want.values()), f"{name} as {target}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minilm", "ppocr-rec"])
def test_symbolic_sizes_in_a_file(name: str, tmp_path: Path) -> None:
    native, inputs = compiled_model(name, "native", tmp_path)
    place = tmp_path / f"{name}.onnx"
    native.save(place)
    onnx.checker.check_model(str(place), full_check=True)
    for sizes in zoo.find(name).sizes:
        inputs = zoo.find(name).inputs(sizes)
        want = native.run(inputs)
        got = run_file(place, inputs)
        assert_close(got, [np.array(a) for a in want.values()], f"{name} {sizes}")
