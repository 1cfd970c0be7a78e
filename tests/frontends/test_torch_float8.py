"""Tensors of 8-bit floats: stored, moved, and cast as torch casts them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InvalidModelError
from cuvil.frontends.torch_export import capture_torch
from cuvil.frontends.torch_export.weights import to_numpy, to_tensor
from tests.frontends.torch_helper import Fn, check

KINDS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def _values() -> torch.Tensor:
    powers = 2.0 ** torch.arange(-20, 18).float()
    line = (powers[:, None] * torch.tensor([1, 1.0625, 1.125, 1.4, 1.75, 1.94])).reshape(-1)
    ends = torch.tensor([0.0, 448, 464, 465, 57344, 61440, 1e9, float("inf"), float("nan")])
    return torch.cat([line, ends, -line, -ends])


@pytest.mark.parametrize("kind", KINDS)
def test_casts_are_those_of_torch(kind: str) -> None:
    dtype = getattr(torch, kind)
    check(lambda x: x.to(dtype).to(torch.float32), _values())
    check(lambda x: x.to(dtype), _values().to(torch.bfloat16))
    check(lambda x: x.to(torch.float16), _values().to(dtype))


class Quantized(torch.nn.Module):
    """A linear layer with weights in an 8-bit float and a scale a row."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
        scale = weight.abs().amax(1, keepdim=True) / 448
        self.register_buffer("weight", (weight / scale).to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.linear(x, self.weight.to(x.dtype) * self.scale)
        return y, y.reshape(-1, 3, 2).to(torch.float8_e5m2).transpose(1, 2)


def test_a_layer_with_float8_weights_compiles() -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    model = Quantized().eval()
    compiled = cuvil.compile(model, (x,), cache=False)
    y, z = compiled(x)
    want, narrow = model(x)
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-5)
    assert z.dtype == torch.float8_e5m2
    assert torch.equal(z.float(), narrow.float())


def test_what_torch_or_cuvil_lacks_is_refused() -> None:
    x = torch.ones(3).to(torch.float8_e4m3fn)
    assert to_tensor(to_numpy(x)).dtype == torch.float8_e4m3fn
    with pytest.raises(InvalidModelError, match="casts to f8e8m0fnu are not supported"):
        capture_torch(Fn(lambda x: x.to(torch.float8_e8m0fnu)), (torch.ones(3),), {})
    powers = torch.arange(0, 255, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    check(lambda x: x.to(torch.float32), powers)
    with pytest.raises(InvalidModelError, match="torch has no tensors of i4"):
        to_tensor(np.zeros(2, np.int8).astype("int4"))
