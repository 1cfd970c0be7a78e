"""The forms an operator is called in besides the function itself: they must keep program order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

Function = Callable[..., Any]


def _inplace(info: Any) -> Function | None:
    """A write to a tensor with one name, read before and after."""
    write = info.inplace_variant
    if write is None:
        return None

    def run(x: torch.Tensor, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        own = x.clone()
        before = own + 0 if own.dtype != torch.bool else own | False
        write(own, *args, **kwargs)
        return [before, own]

    return run


def _view(info: Any) -> Function | None:
    """A write through one view, seen through the base and another view."""
    write = info.inplace_variant
    if write is None:
        return None

    def run(x: torch.Tensor, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        base = torch.stack([x, x, x])
        other = base.transpose(0, -1)
        write(base[1], *args, **kwargs)
        return [base, other.contiguous()]

    return run


def _out(info: Any) -> Function | None:
    """A result written into a tensor that is there already."""
    if not info.supports_out:
        return None
    function = info.op

    def run(x: Any, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        made = function(x, *args, **kwargs)
        parts = list(made) if isinstance(made, (list, tuple)) else [made]
        room = [torch.full_like(p, 1) for p in parts]
        function(x, *args, **kwargs, out=tuple(room) if len(room) > 1 else room[0])
        return room

    return run


def _method(info: Any) -> Function | None:
    return info.method_variant


def _alias(info: Any) -> Function | None:
    """Every other name of the operator, all of their results."""
    others = [a.op for a in info.aliases]
    if not others:
        return None

    def run(*args: Any, **kwargs: Any) -> list[Any]:
        return [pytree.tree_leaves(other(*args, **kwargs)) for other in others]

    return run


FORMS: Mapping[str, Callable[[Any], Function | None]] = {
    "function": lambda info: info.op, "inplace": _inplace, "view": _view, "out": _out,
    "method": _method, "alias": _alias,
}  # fmt: skip
