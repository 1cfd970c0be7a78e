"""Lowers for :mod:`executorch_xnnpack`."""

from __future__ import annotations

from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

from cuvil.integrations.bench.names import read_names, write_names


def build(path: str, threads: int, to: str) -> None:
    """Lower an exported program."""
    program = torch.export.load(path)
    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    Path(to).write_bytes(edge.to_executorch().buffer)
    write_names(to, read_names(path))
