"""What a model's outputs are, computed in float64 where that can be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from cuvil.api.source import Source
from cuvil.ir.widen import widened
from cuvil.reference.interpreter import run_module

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Truth:
    """``outputs`` in the artifact's order; ``source`` says in words what computed them."""

    outputs: list[Array]
    source: str


def in_float64(source: Source, inputs: Mapping[str, Array]) -> Truth:
    """A PyTorch module run as ``.double()``, else the reference interpreter in f64, else the
    source as it is."""
    if source.module.source.get("frontend") != "onnx":
        torch_file = import_module("cuvil.integrations.bench.torch_file")
        outputs = torch_file.doubled(source.origin, inputs)
        if outputs is not None:
            return Truth(outputs, "the PyTorch model in float64")
    try:
        given = {name: as_float64(array) for name, array in inputs.items()}
        outputs = run_module(widened(source.module), given)
    except Exception:  # an op without an f64 form: any kind of failure means the same
        return as_is(source, inputs)
    return Truth(outputs, "the reference interpreter in float64")


def as_is(source: Source, inputs: Mapping[str, Array]) -> Truth:
    """The source in the precision it has."""
    torch = source.module.source.get("frontend") != "onnx"
    words = "the PyTorch model" if torch else "the reference interpreter on the ONNX model"
    return Truth(source.run(inputs), words)


def as_float64(array: Array) -> Array:
    """float32 widened, anything else as it is."""
    return array.astype(np.float64) if array.dtype == np.float32 else array
