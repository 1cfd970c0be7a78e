"""The small ONNX models that the onnx package ships with inputs and expected outputs."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SUITES = ("simple", "pytorch-converted", "pytorch-operator")
SHAPING = ("simple/expand_shape", "simple/sequence_model")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SuiteCase:
    """One model; ``inputs`` by name in graph order, ``outputs`` in graph order. Both are empty
    where they aren't plain tensors (``plain`` False)."""

    name: str
    path: Path
    inputs: dict[str, Array]
    outputs: list[Array]
    plain: bool

    @property
    def shaping(self) -> dict[str, Array]:
        """The inputs whose values decide shapes: constants of what is compiled."""
        if not self.name.startswith(SHAPING):
            return {}
        return {name: value for name, value in self.inputs.items() if value.dtype.kind == "i"}


def data_folder() -> Path:
    """Where the onnx package keeps them."""
    spec = importlib.util.find_spec("onnx")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("install the package onnx")
    return Path(spec.origin).parent / "backend" / "test" / "data"


def suite_cases() -> list[SuiteCase]:
    """All cases of the suites, in order of name."""
    return [
        _case(f"{suite}/{folder.name.removeprefix('test_')}", folder)
        for suite in SUITES
        for folder in sorted((data_folder() / suite).glob("test_*"))
    ]


def _case(name: str, folder: Path) -> SuiteCase:
    import onnx
    from onnx import numpy_helper

    def tensor(path: Path) -> Array:
        proto = onnx.TensorProto()
        proto.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(proto)

    path = folder / "model.onnx"
    graph = onnx.load(str(path)).graph
    weights = {t.name for t in graph.initializer}
    values = [v for v in graph.input if v.name not in weights]
    plain = all(v.type.HasField("tensor_type") for v in (*values, *graph.output))
    data = folder / "test_data_set_0"
    if not plain or any(v.type.tensor_type.elem_type == onnx.TensorProto.STRING for v in values):
        return SuiteCase(name, path, {}, [], False)
    inputs = {v.name: tensor(data / f"input_{i}.pb") for i, v in enumerate(values)}
    outputs = [tensor(data / f"output_{i}.pb") for i in range(len(graph.output))]
    return SuiteCase(name, path, inputs, outputs, True)
