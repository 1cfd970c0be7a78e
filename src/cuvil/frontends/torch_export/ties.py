"""Eager torch with the positions of equal elements settled as a capture has them.

torch leaves open which of equal elements a position names (sort without ``stable``, topk,
kthvalue, median, mode). Here they keep their order, which is one of the results that torch allows;
the values are the same whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Pair = tuple[torch.Tensor, torch.Tensor]


class EqualKeepOrder(TorchDispatchMode):
    """Operators that order elements keep equal ones in their order, while it is entered."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        return _SETTLED.get(str(func), func)(*args, **dict(kwargs or {}))


def _sorted(
    x: torch.Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = True
) -> Pair:
    values, places = torch.sort(x, dim=dim, descending=descending, stable=True)
    return values, places


def _topk(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Pair:
    if x.dim() == 0:
        values, places = torch.topk(x, k, dim, largest, sorted)
    else:
        values, places = (v.narrow(dim, 0, k).clone() for v in _sorted(x, dim, largest))
    return values, places


def _picked(x: torch.Tensor, dim: int, keep: bool, at: torch.Tensor) -> Pair:
    """What stands at the places ``at`` of the sorted line, which keep the axis."""
    found = [v.gather(dim, at) for v in _sorted(x, dim)]
    values, places = found if keep else [v.squeeze(dim) for v in found]
    return values, places


def _kth(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    if x.dim() == 0:
        values, places = torch.kthvalue(x, k, dim, keepdim)
        return values, places
    return _picked(x, dim, keepdim, torch.full_like(_count(x, dim), k - 1))


def _count(x: torch.Tensor, dim: int) -> torch.Tensor:
    """How many elements along an axis are numbers."""
    return (~x.isnan()).sum(dim, keepdim=True)


def _median(x: torch.Tensor, dim: int, keepdim: bool = False) -> Pair:
    """The lower of the two in the middle, or the first NaN."""
    if x.dim() == 0:
        values, places = torch.median(x, dim, keepdim)
        return values, places
    numbers = _count(x, dim)
    size = x.shape[dim]
    middle = torch.full_like(numbers, (size - 1) // 2)
    return _picked(x, dim, keepdim, torch.where(numbers < size, numbers, middle))


def _nanmedian(x: torch.Tensor, dim: int, keepdim: bool = False) -> Pair:
    if x.dim() == 0:
        values, places = torch.nanmedian(x, dim, keepdim)
        return values, places
    return _picked(x, dim, keepdim, ((_count(x, dim) - 1) // 2).clamp(min=0))


def _mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Pair:
    """The last of the most frequent value."""
    values, places = torch.mode(x, dim, keepdim)
    if x.dim() == 0:
        return values, places
    same = x == (values if keepdim else values.unsqueeze(dim))
    behind = same.flip(dim).to(torch.int8).argmax(dim, keepdim)
    return values, torch.where(same.any(dim, keepdim), x.shape[dim] - 1 - behind, places)


_SETTLED: dict[str, Callable[..., Pair]] = {
    "aten.sort.default": _sorted, "aten.sort.stable": _sorted, "aten.topk.default": _topk,
    "aten.kthvalue.default": _kth, "aten.median.dim": _median,
    "aten.nanmedian.dim": _nanmedian, "aten.mode.default": _mode,
}  # fmt: skip
