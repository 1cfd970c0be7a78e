"""A program that runs an ONNX model once in ONNX Runtime; see run_onnx_reference.py."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

from cuvil.integrations.run_onnx_reference import Array, evaluate, run_folder

_NUMPY_TYPES = 256  # the numbers of types that NumPy itself has are below


def in_onnxruntime(path: Path, feeds: Mapping[str, Array]) -> list[Array] | None:
    """The outputs in order; None where it has no kernel for a type, or can't pass it to NumPy."""
    if any(a.dtype.num >= _NUMPY_TYPES for a in feeds.values()):
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=providers)
        return [np.asarray(a) for a in session.run(None, dict(feeds))]
    except state.NotImplemented:
        return None
    except RuntimeError as error:
        if "numpy" in str(error).lower():
            return None
        raise


def run_model(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs in order, by the reference evaluator where ONNX Runtime can't."""
    found = in_onnxruntime(path, feeds)
    return evaluate(path, feeds) if found is None else found


if __name__ == "__main__":
    run_folder(Path(sys.argv[1]), run_model)
