"""The examples do what they say."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import cuvil
from cuvil.build.driver import compiler_path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What compile_onnx.py wrote."""
    place = tmp_path_factory.mktemp("examples")
    example("compile_onnx").main(place)
    return place


def inputs(rows: int) -> np.ndarray:
    """What run_artifact.c makes up."""
    return (np.arange(rows * 8, dtype=np.float32) % 7 - 3).reshape(rows, 8)


def test_compile_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example("compile_torch").main(tmp_path)
    assert "passed" in capsys.readouterr().out
    assert (tmp_path / "classifier.cuvilpkg").exists()


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


@pytest.fixture(scope="module")
def program(folder: Path) -> Path:
    """run_artifact.c, linked with the model's library."""
    made = folder / "run_artifact"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fno-sanitize=all"]
    source = EXAMPLES / "c/run_artifact.c"
    subprocess.run(
        [compiler_path(), "cc", *flags, "-I", folder, source, "model.so", "-Wl,-rpath,$ORIGIN",
         "-o", made],
        cwd=folder, check=True, env={**os.environ, "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")},
    )  # fmt: skip
    return made


def test_c(program: Path, folder: Path) -> None:
    done = subprocess.run(
        [program, folder / "model.weights", "6"], capture_output=True, text=True, check=True
    )
    found = np.array([line.split() for line in done.stdout.splitlines()], np.float32)
    expected = cuvil.load(folder / "model.cuvilpkg")(inputs(6))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_c_says_what_is_wrong(program: Path, folder: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.weights"
    short.write_bytes((folder / "model.weights").read_bytes()[:64])
    done = subprocess.run([program, short, "6"], capture_output=True, text=True)
    assert done.returncode == 1
    page = (EXAMPLES.parent / "docs/howto/c-api.md").read_text(encoding="utf-8")
    assert done.stderr.startswith("create: ") and done.stderr.strip() in page
