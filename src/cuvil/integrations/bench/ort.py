"""ONNX Runtime."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnxruntime


class _Session:
    def __init__(self, session: Any) -> None:
        self.session = session

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        return functools.partial(self.session.run, None, dict(inputs))

    def arrays(self, outputs: Any) -> Sequence[Any]:
        return list(outputs)


def open(path: str, threads: int) -> _Session:
    """Load an .onnx file on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    return _Session(onnxruntime.InferenceSession(path, options, providers=providers))
