"""PyTorch, as it runs a module."""

from __future__ import annotations

import torch

from cuvil.integrations.bench.torch_file import TorchSession, load_bundle


def open(path: str, threads: int) -> TorchSession:
    """Load the model of a bundle."""
    torch.set_num_threads(threads)
    bundle = load_bundle(path)
    return TorchSession(bundle.module(), bundle, threads)
