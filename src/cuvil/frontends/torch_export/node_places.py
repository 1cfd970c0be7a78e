"""Where in a model a node of a program comes from."""

from __future__ import annotations

import re

import torch
from torch.fx import Node

from cuvil.ir.core import Location

# Frames of ours through which a program is traced.
_OWN = ("torch_export/program.py", "torchscript/replay.py", "torchscript/control.py")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def location(node: Node) -> Location:
    """The node's name and the innermost line of user code."""
    frames = _FRAME.findall(_trace(node))
    users = [f for f in frames if "/torch/" not in f[0] and not f[0].startswith("torch/")]
    users = [f for f in users if not f[0].endswith(_OWN)]
    if not users:
        return Location(node.name)
    path, line = users[-1]
    return Location(node.name, f"{path.rsplit('/', 1)[-1]}:{line}")


def _trace(node: Node) -> str:
    """Where a node comes from; one without a place, that holds a graph, from where that begins."""
    found = node.meta.get("stack_trace")
    for held in () if found else node.all_input_nodes:
        graph = held.op == "get_attr" and getattr(held.graph.owning_module, str(held.target), None)
        if isinstance(graph, torch.fx.GraphModule):
            found = found or next(filter(None, map(_trace, graph.graph.nodes)), None)
    return found or ""
