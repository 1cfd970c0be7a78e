"""Apache TVM with the schedules it has without tuning."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from cuvil.integrations.bench.names import read_names

_BIG_CORES = 1  # a mode of runtime.config_threadpool


class _Session:
    def __init__(self, function: Any, names: Sequence[str]) -> None:
        self.function, self.names = function, names

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        values = [tvm.runtime.tensor(inputs[name]) for name in self.names]
        return functools.partial(self.function, *values)

    def arrays(self, outputs: Any) -> Sequence[Any]:
        several = [outputs] if hasattr(outputs, "numpy") else outputs
        return [x.numpy() for x in several]


def open(path: str, threads: int) -> _Session:
    """Load a library."""
    tvm.get_global_func("runtime.config_threadpool")(_BIG_CORES, threads)
    machine = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
    return _Session(machine["main"], read_names(path))
