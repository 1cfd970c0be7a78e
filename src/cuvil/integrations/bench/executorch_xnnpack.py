"""ExecuTorch with its XNNPACK delegate."""

from __future__ import annotations

from executorch.extension.pybindings import portable_lib

from cuvil.integrations.bench.names import read_names
from cuvil.integrations.bench.program import ProgramSession


def open(path: str, threads: int) -> ProgramSession:
    """Load a .pte file."""
    portable_lib._unsafe_reset_threadpool(threads)
    module = portable_lib._load_for_executorch(path)
    return ProgramSession(module.forward, read_names(path))
