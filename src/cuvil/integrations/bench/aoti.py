"""PyTorch's ahead-of-time compiler: a library in a package, called on tensors."""

from __future__ import annotations

import torch
from torch._inductor import aoti_load_package

from cuvil.integrations.bench.names import read_names
from cuvil.integrations.bench.program import ProgramSession


def open(path: str, threads: int) -> ProgramSession:
    """Load a package, which was compiled for that number of threads."""
    torch.set_num_threads(threads)
    model = aoti_load_package(path)
    return ProgramSession(lambda tensors: model(*tensors), read_names(path))
