"""tract, which its Python package runs on one thread."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tract

from cuvil.integrations.bench.peers import Unavailable


class _Session:
    def __init__(self, runnable: Any, names: Sequence[str]) -> None:
        self.runnable, self.names = runnable, names

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        values = [tract.Tensor.from_numpy(inputs[name]) for name in self.names]
        return functools.partial(self.runnable.run, values)

    def arrays(self, outputs: Any) -> Sequence[Any]:
        return [x.to_numpy() for x in outputs]


def open(path: str, threads: int) -> _Session:
    """Load an .onnx file. Raises Unavailable for more than one thread."""
    if threads > 1:
        raise Unavailable("its Python package computes on one thread")
    model = tract.onnx().load(path)
    model.analyse()
    names = [model.input_name(i) for i in range(model.input_count())]
    return _Session(model.into_model().into_runnable(), names)
