"""``torch.compile(model, backend="cuvil")``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from cuvil.api import compile as compile_model
from cuvil.errors import CuvilError

log = logging.getLogger("cuvil")


def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compile one graph that TorchDynamo captured, for inference at the sizes it was given.

    A graph that takes symbolic sizes, needs gradients, or holds what Cuvil can't compile runs in
    PyTorch; the log (logger "cuvil", level warning) says so and why.
    """
    if any(not isinstance(x, torch.Tensor) for x in example_inputs):
        return _in_pytorch(graph, "it takes symbolic sizes; use torch.compile(..., dynamic=False)")
    if torch.is_grad_enabled() and any(x.requires_grad for x in _tensors(graph, example_inputs)):
        return _in_pytorch(graph, "gradients are wanted; call it under torch.no_grad()")
    try:
        artifact = compile_model(graph, tuple(x.detach() for x in example_inputs))
    except CuvilError as error:
        return _in_pytorch(graph, str(error))

    def run(*args: torch.Tensor) -> Any:
        return artifact(*(x.detach() for x in args))

    return run


def _tensors(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[torch.Tensor]:
    return [*inputs, *graph.parameters()]


def _in_pytorch(graph: torch.fx.GraphModule, why: str) -> Callable[..., Any]:
    log.warning("a graph of %d nodes runs in PyTorch: %s", len(graph.graph.nodes), why)
    return graph.forward
