"""Untrained models made such that a fault in any layer shows in what they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils import _pytree as pytree


def enliven(model: torch.nn.Module) -> None:
    """Bring weights to sizes that trained ones have, so that every layer matters to the output.

    As initialised, many are not: a layer is scaled by 1e-6, a bias is 0, and weights of 0.02 fade
    away within a few layers. Matrices get at least a root mean square of 1 / sqrt(fan-in).
    """
    rng = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in model.parameters():
            if not weight.is_floating_point() or not weight.numel():
                continue
            wanted = (weight.numel() / weight.shape[0]) ** -0.5 if weight.dim() > 1 else 0.1
            size = float(weight.pow(2).mean().sqrt())
            if weight.dim() > 1 and 0 < size < wanted:
                weight.mul_(wanted / size)
            elif weight.dim() < 2 or not size:
                weight.add_(0.1 * torch.randn(weight.shape, generator=rng))


def calibrate(model: torch.nn.Module, inputs: Mapping[str, Any]) -> None:
    """Set the statistics of batch norms to those of these inputs."""
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    norms = [m for m in norms if m.track_running_stats]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        model(**inputs)
    for norm in norms:
        norm.eval()
        norm.running_var.clamp_(min=0.05)


def says_something(outputs: Any) -> bool:
    """Whether the first output of floats is finite and depends on where one looks."""
    for leaf in pytree.tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return bool(leaf.isfinite().all()) and float(leaf.detach().std()) > 1e-3
    return False
