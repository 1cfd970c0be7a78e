"""Regions of torch.autocast that a graph of torch.fx enters by a call, as those of Dynamo do.

When torch traces such a call it notes it down and does nothing: what follows is traced without its
casts. Entered through torch.autocast itself, a region is noted and has its effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.amp import autocast_mode


def _enter(device: str, dtype: torch.dtype | None, enabled: bool, cached: bool | None) -> Any:
    region = torch.autocast(device, dtype, enabled, cached)
    region.__enter__()
    return region


def _leave(region: Any) -> None:
    region.__exit__(None, None, None)


_EFFECTIVE = {autocast_mode._enter_autocast: _enter, autocast_mode._exit_autocast: _leave}


@contextmanager
def effective_autocast(model: torch.nn.Module) -> Iterator[None]:
    """The calls inside graphs of a model have their effect; the graphs are restored after."""
    graphs = [m for m in model.modules() if isinstance(m, torch.fx.GraphModule)]
    nodes = [n for m in graphs for n in m.graph.nodes if n.target in _EFFECTIVE]
    held = {n.graph.owning_module for n in nodes}
    kept = [(n, n.target) for n in nodes]
    try:
        for node, target in kept:
            node.target = _EFFECTIVE[target]
        _recompiled(held)
        yield
    finally:
        for node, target in kept:
            node.target = target
        _recompiled(held)


def _recompiled(graphs: set[Any]) -> None:
    for graph in graphs:
        graph.recompile()
