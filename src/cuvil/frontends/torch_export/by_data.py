"""Functions of torch that read a tensor to know the sizes of their results, as torch.export can
trace them: what they read becomes a late symbol, what they demand of it an assertion of each call.
"""

from __future__ import annotations

from typing import Any

import torch

from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.frontends.torch_export.places import user_line


def one_hot(function: Any, input: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """``torch.nn.functional.one_hot``: as many classes as the largest says where they are -1. A
    call with a negative class is refused, as torch does."""
    if num_classes != -1 or input.numel() == 0:
        found: torch.Tensor = function(input, num_classes)
        return found
    last: Any = input.max().item()
    torch._check(last >= 0)
    torch._check(input.min().item() >= 0, lambda: "Class values must be non-negative.")
    classes = torch.arange(last + 1, dtype=input.dtype)
    return (input.unsqueeze(-1) == classes).to(torch.int64)


def tensor_split(function: Any, input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """``torch.tensor_split``. Raises UnsupportedOpError where a tensor without a known value says
    into how many parts: then the number of results is data."""
    given = [*args, *(v for k, v in kwargs.items() if k != "dim")]
    for item in given:
        if isinstance(item, torch.Tensor) and item.dim() == 0 and not _is_known(item):
            reason = "the tensor says into how many parts, so the number of results is data"
            hint = "give the number of parts as a Python integer, or the places of the cuts"
            node = UnsupportedNode("torch.tensor_split", "int64", user_line(), reason, hint)
            raise UnsupportedOpError([node])
    parts = given[0] if given else None
    axis = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if type(parts) is int and parts > 0 and isinstance(input.shape[axis], torch.SymInt):
        # Torch decides for each part whether it is one of the larger ones.
        size = input.shape[axis]
        return torch.split(input, [(size + parts - 1 - i) // parts for i in range(parts)], axis)
    return function(input, *args, **kwargs)


def _is_known(number: torch.Tensor) -> bool:
    """Whether a traced scalar was made from a number in the program."""
    return getattr(number, "constant", None) is not None
