"""A function over tensors as a module."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch


class Function(torch.nn.Module):
    """Calls a function, whose parameters are those of ``forward``. Modules that it holds, as a
    method or in a closure, are modules of this one, so that they are in evaluation mode too."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.held = torch.nn.ModuleList(_held(function))
        self.forward = function


def _held(function: Any) -> list[torch.nn.Module]:
    while hasattr(function, "func"):  # of functools.partial
        function = function.func
    values = list(map(_content, getattr(function, "__closure__", None) or ()))
    if isinstance(function, MethodType):
        values.append(function.__self__)
    return [v for v in values if isinstance(v, torch.nn.Module)]


def _content(cell: Any) -> Any:
    """What a closure holds; None of a name that isn't bound yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
