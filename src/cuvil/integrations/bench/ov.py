"""OpenVINO, computing in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import openvino


class OpenVinoSession:
    """An inference request."""

    def __init__(self, compiled: Any) -> None:
        self.names = {name: port for port in compiled.inputs for name in port.get_names()}
        self.request = compiled.create_infer_request()

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        values = {self.names[name]: array for name, array in inputs.items() if name in self.names}
        return functools.partial(self.request.infer, values, share_inputs=True, share_outputs=True)

    def arrays(self, outputs: Any) -> Sequence[Any]:
        return [np.array(x) for x in outputs.values()]


def load(path: str, threads: int, **settings: str) -> OpenVinoSession:
    """Load an .onnx file on the CPU with further settings."""
    common = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    return OpenVinoSession(openvino.Core().compile_model(path, "CPU", {**common, **settings}))


def open(path: str, threads: int) -> OpenVinoSession:
    """Load an .onnx file on the CPU, in float32 whatever the CPU would like better."""
    return load(path, threads, INFERENCE_PRECISION_HINT="f32")
