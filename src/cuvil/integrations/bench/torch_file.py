"""A PyTorch model in a file that a fresh process can load, with the way to call it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cuvil.frontends.torch_export.evaluation import evaluate
from cuvil.frontends.torch_export.source import TorchSource, run_eager
from cuvil.frontends.torch_export.tree import TreeBuilder, rebuild
from cuvil.frontends.torch_export.weights import to_numpy, to_tensor
from cuvil.integrations.bench.peers import Unavailable
from cuvil.integrations.bench.truth import as_float64

Program = torch.export.ExportedProgram


@dataclass
class Bundle:
    """A model (a module, or a program to be unpacked) and its example call."""

    model: Any
    call: tuple[Any, ...]
    tree: dict[str, Any]
    names: list[str]

    def module(self) -> Any:
        """What can be called, in evaluation mode."""
        if isinstance(self.model, Program):
            return self.model.module()
        evaluate(self.model)
        return self.model

    def arguments(self, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Positional and keyword arguments for inputs by name."""
        tensors = [to_tensor(inputs[name]) for name in self.names]
        args, kwargs = rebuild(self.tree, self.call, tensors)
        return args, kwargs


def bundle_of(source: TorchSource) -> Bundle:
    """The bundle of a captured model."""
    return Bundle(source.model, source.call, source.tree, source.names)


def save_bundle(bundle: Bundle, path: Path) -> None:
    """Write it by pickling, for this process's own children. Raises Unavailable if it can't be."""
    try:
        if isinstance(bundle.model, Program):
            torch.export.save(bundle.model, path.with_suffix(".pt2"))
        elif isinstance(bundle.model, (str, Path)):
            path.with_suffix(".pt2").write_bytes(Path(bundle.model).read_bytes())
        rest = (bundle.call, bundle.tree, bundle.names)
        kept = bundle.model if isinstance(bundle.model, torch.nn.Module) else None
        torch.save((kept, *rest), path)
    except Exception as error:
        reason = str(error).split("\n", 1)[0]
        raise Unavailable(f"the module can't be saved: {type(error).__name__}: {reason}") from None


def load_bundle(path: str) -> Bundle:
    """Read what :func:`save_bundle` wrote. Unpickles: only for files of this process's parent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch, about its own tree specs
        model, call, tree, names = torch.load(path, weights_only=False)
    if model is None:
        model = torch.export.load(Path(path).with_suffix(".pt2"))
    return Bundle(model, call, tree, names)


def doubled(source: TorchSource, inputs: Mapping[str, Any]) -> list[Any] | None:
    """The outputs of the model and of its float inputs in float64; None where it can't be run so:
    it is no module, or it mixes in tensors of other types."""
    if not isinstance(source.model, torch.nn.Module):
        return None
    given = {n: as_float64(array) for n, array in inputs.items()}
    try:
        model = copy.deepcopy(source.model).double()
        args, kwargs = rebuild(
            source.tree, source.call, [to_tensor(given[n]) for n in source.names]
        )
        return run_eager(model, args, kwargs)
    except Exception:  # of any kind: the model's own code runs here
        return None


class TorchSession:
    """A callable on tensors."""

    def __init__(self, call: Callable[..., Any], bundle: Bundle, threads: int) -> None:
        self.call = call
        self.bundle = bundle
        self.threads = threads

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        """A call with gradients off."""
        args, kwargs = self.bundle.arguments(inputs)

        @torch.inference_mode()
        def run() -> Any:
            return self.call(*args, **kwargs)

        return run

    def arrays(self, outputs: Any) -> Sequence[Any]:
        """The tensors among the outputs."""
        builder = TreeBuilder()
        builder.flatten(outputs)
        return [to_numpy(x) for x in builder.leaves]
