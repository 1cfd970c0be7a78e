"""The PyTorch model as a source to check an artifact against, and inputs as it takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree


def as_tensors(tree: Any) -> Any:
    """NumPy arrays anywhere in ``tree`` as tensors; everything else as it is."""
    return pytree.tree_map(
        lambda x: torch.from_numpy(np.ascontiguousarray(x)) if isinstance(x, np.ndarray) else x,
        tree,
    )


def zeros(shape: Sequence[int], dtype_name: str) -> torch.Tensor:
    """A tensor of zeros; floats are small random numbers from a fixed seed instead."""
    dtype = getattr(torch, dtype_name)
    if dtype.is_floating_point:
        generator = torch.Generator().manual_seed(0)
        return torch.randn(tuple(shape), generator=generator).to(dtype)
    return torch.zeros(tuple(shape), dtype=dtype)


def run_eager(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors among the model's outputs, flattened in order, as NumPy arrays."""
    module = model.module() if isinstance(model, torch.export.ExportedProgram) else model
    training = [m for m in module.modules() if m.training] if hasattr(module, "modules") else []
    if training and not isinstance(model, torch.export.ExportedProgram):
        module.eval()
    try:
        with torch.no_grad():
            out = module(*args, **dict(kwargs))
    finally:
        for m in training:
            m.training = True
    leaves = pytree.tree_leaves(out)
    return [_array(x) for x in leaves if isinstance(x, torch.Tensor)]


def _array(tensor: torch.Tensor) -> Any:
    tensor = tensor.detach().contiguous()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


class TorchSource:
    """Runs the model on flat inputs by name, in the order the artifact takes them."""

    def __init__(
        self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]
    ) -> None:
        self.model = model
        self.names = list(names)
        if not args and not kwargs and isinstance(model, torch.export.ExportedProgram):
            args, kwargs = model.example_inputs or ((), {})
        leaves, self.spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.leaves = leaves
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        self.examples = (
            {n: _array(t) for n, t in zip(self.names, tensors)}
            if len(tensors) == len(self.names)
            else {}
        )

    def run(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs' tensors, flat, for inputs given as arrays by name."""
        args, kwargs = self.arguments(inputs)
        return run_eager(self.model, args, kwargs)

    def arguments(self, inputs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keyword arguments of the model for inputs given as arrays by name."""
        values = iter(torch.from_numpy(np.array(inputs[n])) for n in self.names)
        leaves = [next(values) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs
