"""A machine that only runs artifacts: the wheel without its dependencies, beside NumPy."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import torch

import cuvil
from tests.e2e.models import transformer, transformer_inputs

ROOT = Path(__file__).resolve().parents[2]
ROWS, WIDTH = 60_000, 384

PROGRAM = """
import importlib.util, json, sys, time
blocked = ("torch", "onnx", "ziglang", "typer", "rich", "ml_dtypes", "z3", "transformers")
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
import numpy as np
start = time.perf_counter()
import cuvil
imported = time.perf_counter()
inputs = [np.load(path) for path in sys.argv[2:-1]]
before = time.perf_counter()
artifact = cuvil.load(sys.argv[1], threads=1)
loaded = time.perf_counter()
result = artifact(*inputs)
called = time.perf_counter()
many = dict(result.items()) if hasattr(result, "keys") else {"y": result}
np.savez(sys.argv[-1], **many)
rooms = sorted({m.split(".")[1] for m in sys.modules if m.startswith("cuvil.")})
print(json.dumps({
    "file": cuvil.__file__, "import": imported - start, "load": loaded - before,
    "call": called - loaded, "rooms": rooms,
    "tune": sorted(m for m in sys.modules if m.startswith("cuvil.tune.")),
    "foreign": [m for m in sys.modules if m.partition(".")[0] in blocked],
}))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and NumPy, and nothing else."""
    folder = tmp_path_factory.mktemp("runtime-only")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("cuvil-*.whl")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    program = folder / "env/bin/python"
    subprocess.run(
        [*pip, "--python", str(program), "install", "--no-deps", str(wheel)], check=True
    )
    (packages,) = (folder / "env/lib").glob("python*/site-packages")
    home = Path(np.__file__).parent
    for name in ("numpy", "numpy.libs"):
        if (home.parent / name).exists():
            (packages / name).symlink_to(home.parent / name)
    found = {p.name for p in packages.iterdir() if not p.name.endswith(".dist-info")}
    assert found <= {"cuvil", "numpy", "numpy.libs", "__pycache__"}
    return program


def _run(python: Path, package: Path, inputs: list[np.ndarray], folder: Path) -> dict:
    paths = []
    for index, array in enumerate(inputs):
        paths.append(folder / f"in{index}.npy")
        np.save(paths[-1], array)
    script = folder / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [str(python), "-I", str(script), str(package), *map(str, paths), str(folder / "out.npz")],
        capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report: dict = json.loads(done.stdout)
    assert report["foreign"] == []
    assert set(report["rooms"]) <= {
        "errors", "ir", "options", "package", "runtime", "sym", "tune", "version",
    }  # fmt: skip
    assert report["tune"] == ["cuvil.tune.serving"]  # which loads the rest for what is retuned
    assert "env/lib" in report["file"]
    return report


def test_a_model_runs_beside_numpy_alone(
    python: Path, transformer_package: Path, tmp_path: Path
) -> None:
    ids, mask = transformer_inputs(3, 7)
    _run(python, transformer_package, [ids.numpy(), mask.numpy()], tmp_path)
    with torch.no_grad():
        expected = transformer()(ids, mask)
    with np.load(tmp_path / "out.npz") as found:
        assert set(found) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value.numpy(), atol=1e-5)


def test_the_first_output_of_90_megabytes_comes_soon(
    python: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(ROWS, WIDTH), torch.nn.Linear(WIDTH, 8))
    ids = torch.tensor([[0, 1, ROWS - 1]])
    package = tmp_path / "large.cuvilpkg"
    cuvil.compile(model, (ids,), dynamic_dims=["batch", "seq"], cache=False).save(package)
    assert package.stat().st_size > 90_000_000
    reports = [_run(python, package, [ids.numpy()], tmp_path) for _ in range(3)]
    with np.load(tmp_path / "out.npz") as found, torch.no_grad():
        np.testing.assert_allclose(found["y"], model(ids).numpy(), atol=1e-5)
    first = min(r["load"] + r["call"] for r in reports)
    with capsys.disabled():
        print(f"\n90 MB: load and first call {first * 1e3:.1f} ms, import cuvil "
              f"{min(r['import'] for r in reports) * 1e3:.1f} ms")  # fmt: skip
    assert first < 0.25
