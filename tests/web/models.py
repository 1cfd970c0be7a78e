"""A small model for the tests of the loader, with weights that are too large to lie inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import cuvil

A, B = (np.random.default_rng(i).standard_normal((4, 8192)) / 64 for i in (1, 2))
# What the first output is for x = 1 .. 8.
EXPECTED = (np.maximum(np.arange(1, 9).reshape(2, 4) @ A, 0) @ B.T).ravel()


class Widened(torch.nn.Module):
    """Two inputs of open sizes, weights of 256 KB, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.from_numpy(A).float())
        self.b = torch.nn.Parameter(torch.from_numpy(B).float())

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x @ self.a).relu() @ self.b.T, n + 1


def save_widened(folder: Path) -> None:
    """Save it as m.wasm: x f32[rows, 4] and n i64[count] in, the same out."""
    made = cuvil.compile(
        Widened(), (torch.ones(2, 4), torch.zeros(3, dtype=torch.int64)), target="wasm",
        dynamic_dims={"x": {0: cuvil.Dim("rows", max=1000)}, "n": {0: "count"}}, verify=False,
    )  # fmt: skip
    made.save(folder / "m.wasm")
    assert (folder / "m.weights").stat().st_size > A.nbytes
