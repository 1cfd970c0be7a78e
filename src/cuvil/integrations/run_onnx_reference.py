"""A program that runs an ONNX model once, by ONNX's reference evaluator.

``python -m cuvil.integrations.run_onnx_reference FOLDER``: the folder holds model.onnx, inputs.json
(name, dtype and shape of each) and their bytes; it gets outputs.json (shapes) and their bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator

from cuvil.ir.types import DTYPES

Array = np.ndarray[Any, Any]


def evaluate(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs in order."""
    return [np.asarray(a) for a in ReferenceEvaluator(str(path)).run(None, dict(feeds))]


def run_folder(folder: Path, run: Callable[[Path, Mapping[str, Array]], list[Array]]) -> None:
    """Read, run, write."""
    feeds = {}
    for index, spec in enumerate(json.loads((folder / "inputs.json").read_text())):
        raw = np.frombuffer((folder / f"input{index}").read_bytes(), np.uint8)
        feeds[spec["name"]] = raw.view(DTYPES[spec["dtype"]].numpy).reshape(spec["shape"])
    outputs = run(folder / "model.onnx", feeds)
    for index, array in enumerate(outputs):
        (folder / f"output{index}").write_bytes(np.ascontiguousarray(array).tobytes())
    (folder / "outputs.json").write_text(json.dumps([list(a.shape) for a in outputs]))


if __name__ == "__main__":
    run_folder(Path(sys.argv[1]), evaluate)
