"""A PyTorch model as a program of tensors in and tensors out, for what is built from one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cuvil.frontends.torch_export.tree import TreeBuilder, rebuild
from cuvil.frontends.torch_export.weights import to_tensor
from cuvil.integrations.bench.names import write_names
from cuvil.integrations.bench.peers import Unavailable
from cuvil.integrations.bench.torch_file import Bundle


class _Flat(torch.nn.Module):
    def __init__(self, bundle: Bundle) -> None:
        super().__init__()
        self.inner = bundle.module()
        self.call, self.tree = bundle.call, bundle.tree

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = rebuild(self.tree, self.call, list(tensors))
        builder = TreeBuilder()
        builder.flatten(self.inner(*args, **kwargs))
        return tuple(builder.leaves)


def save_program(bundle: Bundle, inputs: Mapping[str, Any], path: Path) -> None:
    """Export at the sizes of ``inputs``; the names of the inputs stand in a file beside it.

    Raises Unavailable with the reason of torch.export.
    """
    tensors = tuple(to_tensor(inputs[name]) for name in bundle.names)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(_Flat(bundle), tensors)
            torch.export.save(program, path)
    except Exception as error:
        reason = str(error).strip().split("\n", 1)[0]
        raise Unavailable(f"torch.export failed: {type(error).__name__}: {reason}") from None
    write_names(path, bundle.names)
