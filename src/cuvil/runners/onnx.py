"""Runs ONNX models: in ONNX Runtime or, without it, the reference evaluator; another process."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.errors import ArtifactError
from cuvil.ir.types import DTYPES
from cuvil.package.format import Package
from cuvil.runners.base import Runner
from cuvil.runtime.save import save_package

Array = np.ndarray[Any, Any]
_PROGRAM, _REFERENCE = (f"cuvil.integrations.run_onnx{end}" for end in ("", "_reference"))
_LINES = 6


def _has_runtime() -> bool:
    return importlib.util.find_spec("onnxruntime") is not None


def runner_name() -> str:
    """What runs an ONNX model here."""
    return "onnxruntime" if _has_runtime() else "onnx.reference"


def _missing() -> str | None:
    if importlib.util.find_spec("onnx") is None:
        return 'the package onnx is not installed (pip install "cuvil[onnx]")'
    return None


def _run(package: Package, inputs: Mapping[str, Array]) -> dict[str, Array]:
    with tempfile.TemporaryDirectory(prefix="cuvil-") as name:
        folder = Path(name)
        save_package(package, folder / "model.onnx")
        given = []
        for spec in package.manifest.inputs:
            array = inputs[spec.name]
            given.append({"name": spec.name, "dtype": spec.dtype, "shape": list(array.shape)})
            (folder / f"input{len(given) - 1}").write_bytes(array.tobytes())
        (folder / "inputs.json").write_text(json.dumps(given))
        program = _PROGRAM if _has_runtime() else _REFERENCE
        done = subprocess.run(
            [sys.executable, "-m", program, name], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        empty = [spec.name for spec in package.manifest.inputs if not inputs[spec.name].size]
        if done.returncode < 0 and empty:
            raise ArtifactError(
                f"{runner_name()} ends without a word at this model when the input {empty[0]!r} "
                "has no elements",
                hint="give it elements, or compile for another target, which takes none too",
            )
        if done.returncode:
            lines = done.stderr.strip().splitlines()[-_LINES:] or ["no message"]
            raise ArtifactError("the ONNX model does not run: " + "\n  ".join(lines))
        found = json.loads((folder / "outputs.json").read_text())
        outputs = {}
        for index, (spec, shape) in enumerate(zip(package.manifest.outputs, found, strict=True)):
            raw = np.frombuffer((folder / f"output{index}").read_bytes(), np.uint8)
            outputs[spec.name] = raw.view(DTYPES[spec.dtype].numpy).reshape(shape)
        return outputs


ONNX_RUNNER = Runner(runner_name(), _missing, _run)
