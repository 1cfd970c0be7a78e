"""The PyTorch model as a source to check an artifact against, and inputs as it takes them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from cuvil.errors import InputError
from cuvil.frontends.alone import ALONE
from cuvil.frontends.torch_export.evaluation import evaluating
from cuvil.frontends.torch_export.own_state import kept
from cuvil.frontends.torch_export.ties import EqualKeepOrder
from cuvil.frontends.torch_export.tree import Json, TreeBuilder, rebuild
from cuvil.frontends.torch_export.unchecked import Checked
from cuvil.frontends.torch_export.weights import dtype_from_torch, to_numpy, to_tensor
from cuvil.frontends.torchscript.replay import fresh

_MOST_DOUBLED = 1 << 28  # parameters, 2 GB of them
_Program = torch.export.ExportedProgram
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


def as_tensors(tree: Any) -> Any:
    """NumPy arrays anywhere in ``tree`` as tensors; everything else as it is."""
    return pytree.tree_map(lambda x: to_tensor(x) if isinstance(x, np.ndarray) else x, tree)


def zeros(shape: Sequence[int], dtype_name: str) -> torch.Tensor:
    """A tensor of zeros; floats are small random numbers from a fixed seed instead."""
    dtype = getattr(torch, dtype_name, None)
    if dtype is None:
        raise InputError(f"PyTorch has no tensors of {dtype_name}")
    dtype_from_torch(dtype)
    if dtype.is_floating_point:
        generator = torch.Generator().manual_seed(0)
        return torch.randn(tuple(shape), generator=generator).to(dtype)
    return torch.zeros(tuple(shape), dtype=dtype)


@ALONE.held()
def run_eager(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tree: Json | None = None
) -> list[Any]:
    """The tensors among the model's outputs as NumPy arrays, in the order a capture has them.

    ``tree`` is the output tree of the capture: a number that is a tensor there is taken for one.
    """
    # Torch's own fast paths leave padded rows as zeros; a capture has the plain computation.
    fast = torch.backends.mha.get_fastpath_enabled()
    module = model.module() if isinstance(model, _Program) else model
    if isinstance(module, torch.jit.ScriptModule):
        module = fresh(module)
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.no_grad(), evaluating(module), _as_it_was(module):
            out = module(*args, **dict(kwargs))
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    if isinstance(model, _Program):
        return [to_numpy(x) for x in pytree.tree_leaves(out) if isinstance(x, torch.Tensor)]
    builder = TreeBuilder()
    builder.flatten(out if tree is None else _with_tensors(tree, out))
    return [to_numpy(x) for x in builder.leaves]


def _as_it_was(module: Any) -> AbstractContextManager[Any]:
    """A ScriptModule that changes is a copy already."""
    plain = isinstance(module, torch.nn.Module)
    script = isinstance(module, torch.jit.ScriptModule)
    return kept(module) if plain and not script else nullcontext()


def _with_tensors(tree: Json, value: Any) -> Any:
    """``value`` with its numbers as tensors where ``tree`` has leaves."""
    if tree["kind"] == "leaf":
        kind = _NUMBERS.get(type(value))
        return value if kind is None else torch.tensor(value, dtype=kind)
    items = tree.get("items", ())
    if type(value) in (tuple, list) and len(value) == len(items):
        return type(value)(_with_tensors(t, v) for t, v in zip(items, value, strict=True))
    if type(value) is dict and len(value) == len(items):
        return {k: _with_tensors(t, v) for t, (k, v) in zip(items, value.items(), strict=True)}
    return value


def _doubled(value: Any) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if floating else value


class TorchSource:
    """Runs the model on flat inputs by name, in the order the artifact takes them.

    ``call`` is the example call, ``tree`` how its tensors lie in it, as in a capture; so is
    ``outputs`` of the result. ``checked`` has inputs refused by which torch would read memory that
    is none of its tensors'.
    """

    def __init__(
        self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str],
        outputs: Json | None = None, checked: bool = False,
    ) -> None:  # fmt: skip
        self.model = model
        self.checked = checked
        self.outputs = outputs
        self.names = list(names)
        if not args and not kwargs and isinstance(model, _Program):
            args, kwargs = model.example_inputs or ((), {})
        self.call = (tuple(args), dict(kwargs))
        builder = TreeBuilder()
        self.tree = builder.flatten(self.call)
        self.examples = (
            {n: to_numpy(t) for n, t in zip(self.names, builder.leaves)}
            if len(builder.leaves) == len(self.names)
            else {}
        )

    def run(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs' tensors, flat, for inputs given as arrays by name."""
        args, kwargs = self.arguments(inputs)
        with Checked() if self.checked else nullcontext():
            return run_eager(self.model, args, kwargs, self.outputs)

    def settled(self, inputs: Mapping[str, Any]) -> list[Any]:
        """As ``run``, where the positions of equal elements are those that a capture gives."""
        with EqualKeepOrder():
            return self.run(inputs)

    @ALONE.held()
    def exact(self, inputs: Mapping[str, Any]) -> list[Any]:
        """As ``run``, with parameters, inputs and new tensors in float64 instead of what the model
        computes in: what it is an approximation of. Raises what torch raises of a model that its
        own casts keep from that, and ValueError for one that is too large to be copied."""
        module = self.model.module() if isinstance(self.model, _Program) else self.model
        if sum(p.numel() for p in module.parameters()) > _MOST_DOUBLED:
            raise ValueError("it is too large")
        args, kwargs = self.arguments(inputs)
        wide = pytree.tree_map(_doubled, (args, kwargs))
        usual = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float64)
            return run_eager(copy.deepcopy(module).double(), *wide, self.outputs)
        finally:
            torch.set_default_dtype(usual)

    def arguments(self, inputs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keyword arguments of the model for inputs given as arrays by name."""
        args, kwargs = rebuild(self.tree, self.call, [to_tensor(inputs[n]) for n in self.names])
        return args, kwargs
