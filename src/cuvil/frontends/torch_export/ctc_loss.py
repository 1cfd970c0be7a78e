"""torch's ctc_loss kept whole: torch.export has no rule for what its own operator keeps for the
gradient, whose size is read from the lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

CTC = (
    "ctc_losses(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "int blank) -> Tensor"
)
_REDUCTIONS = ("none", "mean", "sum")
Lengths = torch.Tensor | Sequence[int]


def ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Lengths,
    target_lengths: Lengths, blank: int = 0, reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:  # fmt: skip
    """``torch.nn.functional.ctc_loss``: log_probs [T, N, C] (or [T, C]), targets [N, S] or all
    behind one another, lengths [N] -> losses [N] (or []), their mean or their sum."""
    reduction = _REDUCTIONS[reduction] if isinstance(reduction, int) else reduction
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    single = log_probs.dim() == 2
    inputs, wanted = _lengths(input_lengths), _lengths(target_lengths)
    wide = log_probs.unsqueeze(1) if single else log_probs
    losses: torch.Tensor = torch.ops.cuvil_capture.ctc_losses(wide, targets, inputs, wanted, blank)
    if zero_infinity:
        losses = torch.where(losses == torch.inf, 0.0, losses)
    if reduction == "mean":
        return (losses / wanted.to(losses.dtype).clamp_min(1)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses.squeeze(0) if single else losses


def ctc_losses(
    log_probs: torch.Tensor, targets: torch.Tensor, inputs: torch.Tensor, wanted: torch.Tensor,
    blank: int,
) -> torch.Tensor:  # fmt: skip
    """The losses [N] by torch itself."""
    arguments = (log_probs, targets, inputs.tolist(), wanted.tolist(), blank)
    losses: torch.Tensor = torch.ops.aten.ctc_loss.IntList(*arguments, 0, False)
    return losses


def ctc_shape(
    log_probs: torch.Tensor, targets: torch.Tensor, inputs: torch.Tensor, wanted: torch.Tensor,
    blank: int,
) -> torch.Tensor:  # fmt: skip
    """The type of the losses."""
    return log_probs.new_empty((log_probs.shape[1],))


def _lengths(given: Any) -> torch.Tensor:
    lengths = given if isinstance(given, torch.Tensor) else torch.tensor(given)
    return lengths.reshape(-1).to(torch.int64)
