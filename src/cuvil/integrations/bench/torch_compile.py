"""PyTorch's own compiler, with the weights frozen."""

from __future__ import annotations

import shutil

import torch

from cuvil.integrations.bench.peers import Unavailable
from cuvil.integrations.bench.torch_file import TorchSession, load_bundle


def open(path: str, threads: int) -> TorchSession:
    """Load the model of a bundle; the first call compiles it. Raises Unavailable."""
    if not any(map(shutil.which, ("g++", "c++", "clang++"))):
        raise Unavailable("torch.compile needs a C++ compiler, and there is none")
    torch.set_num_threads(threads)
    bundle = load_bundle(path)
    module = bundle.module()
    for weight in module.parameters():
        weight.requires_grad_(False)  # frozen only without gradients
    compiled = torch.compile(module, dynamic=False, options={"freezing": True})
    return TorchSession(compiled, bundle, threads)
