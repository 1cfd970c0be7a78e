"""One artifact for every length: named dims, bounds, constraints, and what breaks them."""

from __future__ import annotations

from typing import Any

import torch

import cuvil


class Blocks(torch.nn.Module):
    """f32[batch, time, 16] to the mean of each block of four steps, f32[batch, time / 4, 16]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        return torch.tanh(x).reshape(batch, time // 4, 4, width).mean(2)


def main() -> None:
    """Compile once, call with many shapes."""
    model = Blocks().eval()
    compiled = cuvil.compile(
        model,
        (torch.randn(2, 8, 16),),
        dynamic_dims={"x": {0: "batch", 1: cuvil.Dim("time", min=4, max=1024)}},
        constraints=["time % 4 == 0"],
    )
    print(compiled)
    for symbol in compiled.manifest.signature.symbols:
        print(f"  {symbol.rule}")
    for constraint in compiled.manifest.signature.constraints:
        print(f"  {constraint.text}  ({constraint.origin})")

    for batch, time in ((1, 4), (3, 100), (0, 8), (2, 1024)):
        x = torch.randn(batch, time, 16)
        y = compiled(x)
        torch.testing.assert_close(y, model(x), atol=1e-5, rtol=1e-5)
        print(f"{list(x.shape)} -> {list(y.shape)}, workspace "
              f"{compiled.workspace_bytes({'x': x})} bytes")  # fmt: skip

    for time in (6, 2048):
        print(f"time {time}: {refusal(compiled, time)}")


def refusal(compiled: Any, time: int) -> str:
    """What a call with that many steps is refused for."""
    try:
        compiled(torch.randn(1, time, 16))
    except cuvil.ShapeConstraintError as error:
        return str(error)
    raise AssertionError(f"time {time} was accepted")


if __name__ == "__main__":
    main()
