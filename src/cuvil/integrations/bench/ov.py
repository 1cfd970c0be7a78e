"""OpenVINO, computing in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import openvino


class _Session:
    def __init__(self, compiled: Any) -> None:
        self.names = {name: port for port in compiled.inputs for name in port.get_names()}
        self.request = compiled.create_infer_request()

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        values = {self.names[name]: array for name, array in inputs.items() if name in self.names}
        return functools.partial(self.request.infer, values, share_inputs=True, share_outputs=True)

    def arrays(self, outputs: Any) -> Sequence[Any]:
        return [np.array(x) for x in outputs.values()]


def open(path: str, threads: int) -> _Session:
    """Load an .onnx file on the CPU."""
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    return _Session(openvino.Core().compile_model(path, "CPU", settings))
