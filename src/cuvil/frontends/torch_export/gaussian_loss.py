"""torch's gaussian_nll_loss, whose check of the variances becomes one of each call."""

from __future__ import annotations

import math

import torch


def gaussian_nll_loss(
    input: torch.Tensor, target: torch.Tensor, var: torch.Tensor | float, full: bool = False,
    eps: float = 1e-6, reduction: str = "mean",
) -> torch.Tensor:  # fmt: skip
    """Torch raises where a variance is negative, and looks at the data for that while tracing.
    Here the assertion goes into the program."""
    if isinstance(var, torch.Tensor):
        torch._check((var < 0).sum().item() < 1, lambda: "var has negative entry/entries")
    elif var < 0:
        raise ValueError("var has negative entry/entries")
    else:
        var = var * torch.ones_like(input)
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.shape[:-1] == var.shape[:-1] and var.shape[-1] == 1):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()
