"""Eager torch where it reads memory by numbers that it doesn't check.

On a CPU these operators read and write by offsets, lengths and labels from their inputs without a
look at most of them: wrong ones end the process. Inputs made up to verify with may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NAMES = frozenset({
    "_embedding_bag", "_embedding_bag_forward_only", "_ctc_loss", "ctc_loss", "ctc_losses",
    "segment_reduce",
})  # fmt: skip

# Where an embedding_bag that sums leaves out the rows behind its last offset; elsewhere what it
# gives for them depends on how it computes, and may be written outside.
WITH_TAIL = (torch.float32, torch.float16, torch.bfloat16)


def has_unchecked(program: torch.export.ExportedProgram) -> bool:
    """Whether a program has one of these operators."""
    graphs = (m.graph for m in program.graph_module.modules() if hasattr(m, "graph"))
    nodes = (n for graph in graphs for n in graph.nodes if n.op == "call_function")
    return any(_name(node.target) in NAMES for node in nodes)


def _name(target: Any) -> str:
    """The operator's name without its namespace and overload."""
    packet = getattr(target, "overloadpacket", None)
    return str(getattr(packet, "__name__", ""))


class Checked(TorchDispatchMode):
    """These operators raise ValueError for such numbers, while it is entered."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        check = _CHECKS.get(_name(func))
        if check is not None:
            check(*args, **dict(kwargs or {}))
        return func(*args, **dict(kwargs or {}))


def _rising(name: str, offsets: torch.Tensor, last: int) -> None:
    """Raise unless offsets rise from 0 to at most ``last`` along their last axis."""
    lead = (*offsets.shape[:-1], 1)
    edges = torch.cat([offsets.new_zeros(lead), offsets, offsets.new_full(lead, last)], -1)
    if bool((edges.diff(dim=-1) < 0).any()) or bool((offsets[..., :1] != 0).any()):
        raise ValueError(f"{name}: the offsets don't rise from 0 to at most {last}")


def _bags(
    weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor,
    scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> None:  # fmt: skip
    rows = indices.numel()
    _rising("embedding_bag", offsets, rows)
    tail = mode == 0 and padding_idx < 0 and weight.dtype in WITH_TAIL
    if include_last_offset and not tail and int(offsets[-1]) != rows:
        raise ValueError(f"embedding_bag: the last offset is not the number of indices, {rows}")


def _labels(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any,
    *rest: Any, **named: Any,
) -> None:  # fmt: skip
    lengths = torch.as_tensor(target_lengths).reshape(-1)
    used = targets[: max(0, int(lengths.sum()))]
    if targets.dim() == 2:
        used = targets[torch.arange(targets.shape[1]) < lengths.unsqueeze(-1)]
    classes = log_probs.shape[-1]
    if bool(((used < 0) | (used >= classes)).any()):
        raise ValueError(f"ctc_loss: a target is none of the {classes} classes")


def _segments(
    data: torch.Tensor, reduce: str, *, lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None, offsets: torch.Tensor | None = None, axis: int = 0,
    **named: Any,
) -> None:  # fmt: skip
    size = data.shape[axis]
    if lengths is not None:
        offsets = torch.cat([lengths.new_zeros((*lengths.shape[:-1], 1)), lengths.cumsum(-1)], -1)
    if offsets is not None:
        _rising("segment_reduce", offsets, size)


_CHECKS: dict[str, Callable[..., None]] = {
    "_embedding_bag": _bags, "_embedding_bag_forward_only": _bags,
    "_ctc_loss": _labels, "segment_reduce": _segments,
}  # fmt: skip
