"""A module in evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode, restored after. A program that was exported before has no modes to switch,
    its eval() raises NotImplementedError; it stays as it is, wherever in the model it stands."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    flags = [(m, m.training) for m in modules]
    try:
        if any(training for _, training in flags):
            evaluate(model)
        yield
    finally:
        for module, training in flags:
            module.training = training


def evaluate(module: torch.nn.Module) -> None:
    """``module.eval()``; of modules inside, where the module itself has no modes."""
    try:
        module.eval()
    except NotImplementedError:
        for child in module.children():
            evaluate(child)
