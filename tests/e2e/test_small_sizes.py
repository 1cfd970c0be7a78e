"""Sizes of a dynamic dim for which PyTorch raises are refused; all others give its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import cuvil

Function = Callable[[torch.Tensor], torch.Tensor]

CASES: dict[str, Function] = {
    "last row": lambda x: x[-1],
    "last column of the transpose": lambda x: x.T[:, -1],
    "first of the flipped": lambda x: x.flip(0)[0],
    "middle row": lambda x: x[x.shape[0] // 2],
    "narrow": lambda x: x.narrow(0, x.shape[0] - 1, 1),
    "replicate": lambda x: torch.nn.functional.pad(x.T[None], (2, 2), mode="replicate"),
    "total": lambda x: x.cumsum(0)[-1],
    "first three": lambda x: x[:3],
    "last three": lambda x: x[-3:],
    "every other": lambda x: x[::2],
    "from the fifth": lambda x: x[5:],
}


class _Model(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize("name", CASES)
def test_small_sizes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path))
    function = CASES[name]
    compiled = cuvil.compile(_Model(function), (torch.randn(6, 3),), dynamic_dims=["b"])
    for size in (0, 1, 2, 3, 7):
        x = torch.randn(size, 3)
        try:
            expected = function(x)
        except (IndexError, RuntimeError):
            with pytest.raises(cuvil.ShapeConstraintError):
                compiled(x)
        else:
            torch.testing.assert_close(compiled(x), expected)
