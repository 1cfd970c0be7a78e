"""The examples do what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cuvil
from tests.examples.conftest import EXAMPLES, example, inputs


def test_compile_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example("compile_torch").main(tmp_path)
    assert "passed" in capsys.readouterr().out
    assert (tmp_path / "classifier.cuvilpkg").exists()


@pytest.mark.parametrize("name", ["compile_torch", "compile_onnx"])
def test_without_a_folder_a_temporary_one_is_named(name: str, tmp_path: Path) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    found = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], cwd=here, capture_output=True, text=True,
        check=True, env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert list(here.iterdir()) == []
    written = list(temporary.glob("cuvil-*/*"))
    assert written and any(f"{path}: " in found.stdout for path in written)


def test_compile_onnx(folder: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "small.onnx")
    x = inputs(5)
    (expected,) = session.run(None, {"x": x})
    found = cuvil.load(folder / "model.cuvilpkg")(x)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_dynamic_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    example("dynamic_shapes").main()
    assert "time 6: the constraint time % 4 == 0" in capsys.readouterr().out


def test_run_without_torch(folder: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    numpy_home = Path(np.__file__).parent
    for home in (numpy_home, numpy_home.with_name("numpy.libs"), Path(cuvil.__file__).parent):
        if home.exists():
            (packages / home.name).symlink_to(home)
    np.savez(tmp_path / "inputs.npz", x=inputs(4))
    script = EXAMPLES / "run_without_torch.py"
    files = [folder / "model.cuvilpkg", tmp_path / "inputs.npz", tmp_path / "outputs.npz"]
    done = subprocess.run(
        [sys.executable, "-S", str(script), *map(str, files)],
        env={"PYTHONPATH": str(packages)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["imported"] == ["cuvil", "numpy"]
    assert {"torch", "onnx", "ziglang"} <= set(report["absent"])
    with np.load(tmp_path / "outputs.npz") as outputs:
        expected = cuvil.load(folder / "model.cuvilpkg")(inputs(4))
        np.testing.assert_array_equal(outputs["y"], expected)


def test_run_without_torch_says_what_it_takes() -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / "run_without_torch.py")], capture_output=True, text=True
    )
    assert ran.returncode and ran.stderr.startswith("usage: run_without_torch.py MODEL")
