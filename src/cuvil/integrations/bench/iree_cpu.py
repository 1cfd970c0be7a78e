"""IREE on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import iree.runtime as rt

from cuvil.integrations.bench.names import read_names


class _Session:
    def __init__(self, function: Any, device: Any, names: Sequence[str]) -> None:
        self.function, self.device, self.names = function, device, names

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        values = [rt.asdevicearray(self.device, inputs[name]) for name in self.names]
        return functools.partial(self.function, *values)

    def arrays(self, outputs: Any) -> Sequence[Any]:
        several = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return [x.to_host() for x in several]


def open(path: str, threads: int) -> _Session:
    """Map a .vmfb file."""
    rt.flags.parse_flags(f"--task_topology_max_group_count={threads}")
    config = rt.Config("local-task" if threads > 1 else "local-sync")
    module = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, path), config)
    own = [n for n in module.vm_module.function_names if "$" not in n and not n.startswith("__")]
    return _Session(module[own[0]], config.device, read_names(path))
