"""WebAssembly modules, run by Node.js."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.errors import ArtifactError, CuvilError, InputError, ShapeConstraintError
from cuvil.package.format import Package
from cuvil.runners.base import Runner
from cuvil.runtime.save import save_package
from cuvil.runtime.web_form import WEB

Array = np.ndarray[Any, Any]

_OLDEST, _OLDEST_RELAXED = 18, 20
_ERRORS: Mapping[str, type[CuvilError]] = {
    "SHAPE": ShapeConstraintError,
    "CONSTRAINT": ShapeConstraintError,
    "INDEX": InputError,
}
_TAIL = 600


def missing() -> str | None:
    """What this machine lacks; None if nothing."""
    return _older_than(_OLDEST)


def _older_than(oldest: int) -> str | None:
    program = shutil.which("node")
    if program is None:
        return "the program node (Node.js) is not installed"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    major = done.stdout.strip().removeprefix("v").partition(".")[0]
    if not major.isdigit() or int(major) < oldest:
        found = done.stdout.strip() or "unknown"
        return f"Node.js has version {found}; {oldest} or newer is needed"
    return None


def run(package: Package, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run the module that every host can run, on one thread."""
    found = run_with(package, inputs, {"relaxed": False, "threads": 1})
    assert found is not None, "nothing was asked of Node that it may lack"
    return found


def run_with(
    package: Package, inputs: Mapping[str, Array], load: Mapping[str, Any]
) -> dict[str, Array] | None:
    """Run with options of the loader's ``load``; None where this Node lacks relaxed SIMD.

    Raises ShapeConstraintError and InputError for inputs that the model refuses, ArtifactError for
    everything else that fails.
    """
    with tempfile.TemporaryDirectory(prefix="cuvil-node-") as name:
        folder = Path(name)
        save_package(package, folder / "m.wasm")
        request: dict[str, Any] = {"load": dict(load), "inputs": []}
        for index, spec in enumerate(package.manifest.inputs):
            array = inputs[spec.name]
            (folder / f"{index}.in").write_bytes(array.tobytes())
            entry = {"name": spec.name, "file": f"{index}.in", "shape": list(array.shape)}
            request["inputs"].append(entry)
        (folder / "request.json").write_text(json.dumps(request))
        answer = _ask(folder)
        if "missing" in answer:
            return None
        outputs = {}
        for index, (spec, entry) in enumerate(zip(package.manifest.outputs, answer["outputs"])):
            data = np.frombuffer((folder / f"{index}.out").read_bytes(), spec.element.numpy)
            outputs[spec.name] = data.reshape(entry["shape"]).copy()
        return outputs


def _ask(folder: Path) -> dict[str, Any]:
    command = [shutil.which("node") or "node", str(WEB / "run.mjs"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ArtifactError(f"Node.js failed to run the module: {done.stderr.strip()[-_TAIL:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        error = answer["error"]
        raise _ERRORS.get(error["code"], ArtifactError)(error["message"])
    return answer


def _other(relaxed: bool, threads: int) -> Runner:
    def missing() -> str | None:
        return _older_than(_OLDEST_RELAXED if relaxed else _OLDEST)

    def run(package: Package, inputs: Mapping[str, Array]) -> dict[str, Array]:
        found = run_with(package, inputs, {"relaxed": relaxed, "threads": threads})
        if found is None:
            raise ArtifactError("this Node.js has no relaxed SIMD")
        return found

    return Runner("node", missing, run)


NODE = Runner("node", missing, run, (_other(True, 1), _other(False, 2), _other(True, 2)))
