"""Models that round to codes as they run: a step is allowed where rounding makes one, no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

from cuvil.frontends.torch_export import capture_torch
from cuvil.verify.tolerance import movement, rounds_to_codes

Q: Any = torch.ops.quantized_decomposed
ENDS = (0, 255, torch.uint8)
SCALE = 0.0625


class Twice(torch.nn.Module):
    """Data are quantised, summed up in floats, and quantised again with ties between two steps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = Q.dequantize_per_tensor(Q.quantize_per_tensor(x, SCALE, 0, *ENDS), SCALE, 0, *ENDS)
        mean = first.mean(-1)
        codes = Q.quantize_per_tensor(mean, SCALE, 0, *ENDS)
        out: torch.Tensor = Q.dequantize_per_tensor(codes, SCALE, 0, *ENDS)
        return out


def allowed(x: torch.Tensor) -> np.ndarray:
    model = Twice()
    module = capture_torch(model, (x,))
    assert rounds_to_codes(module)

    def run(inputs: Any) -> list[np.ndarray]:
        return [model(torch.from_numpy(inputs["x"])).numpy()]

    return movement(module, run, {"x": x.numpy()}, {})[0]


def test_a_step_is_allowed_where_there_are_ties() -> None:
    codes = torch.randint(0, 200, (64, 2), generator=torch.Generator().manual_seed(0))
    found = allowed(codes * SCALE)
    assert (found >= 0.999 * SCALE).all() and np.median(found) <= 1.001 * SCALE


def test_none_is_allowed_where_there_are_no_ties() -> None:
    codes = torch.randint(0, 50, (64, 2), generator=torch.Generator().manual_seed(0)) * 4
    assert (allowed(codes * SCALE) < 2e-3 * SCALE).all()


def test_floats_that_are_rounded_alone_are_no_codes() -> None:
    module = capture_torch(torch.nn.Hardtanh(), (torch.randn(3),))
    assert not rounds_to_codes(module)
