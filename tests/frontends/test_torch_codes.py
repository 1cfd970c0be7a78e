"""Layers between dequantize and quantize, as PyTorch's tools leave them, multiply bytes.

The floats' sums are rounded at every step in torch, and not at all here, so that results differ
in their last bits.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

import cuvil
from cuvil.frontends.torch_export import capture_torch
from cuvil.ir.core import Op
from cuvil.passes.pipeline import lower

Q: Any = torch.ops.quantized_decomposed
U8 = (0, 255, torch.uint8)
I8 = (-128, 127, torch.int8)


class Layer(torch.nn.Module):
    """A layer of quantised data and weights, as convert_pt2e writes it."""

    weight: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor

    def __init__(
        self, shape: tuple[int, ...], zero: int = 125, ends: Any = U8, **conv: Any
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.zero, self.ends, self.conv = zero, ends, conv
        self.register_buffer("weight", torch.randint(-128, 128, shape).to(torch.int8))
        self.register_buffer("scales", torch.rand(shape[0]) * 0.01 + 1e-3)
        self.register_buffer("zeros", torch.zeros(shape[0], dtype=torch.int64))
        self.bias = torch.nn.Parameter(torch.randn(shape[0]))

    def data(self, x: torch.Tensor) -> torch.Tensor:
        codes = Q.quantize_per_tensor(x, 0.0306, self.zero, *self.ends)
        real: torch.Tensor = Q.dequantize_per_tensor(codes, 0.0306, self.zero, *self.ends)
        return real

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = Q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, *I8)
        if w.dim() == 2:
            return torch.nn.functional.linear(self.data(x), w, self.bias)
        function = [torch.conv1d, torch.conv2d, torch.conv3d][w.dim() - 3]
        out: torch.Tensor = function(self.data(x), w, self.bias, **self.conv)
        return out


class Dynamic(Layer):
    def data(self, x: torch.Tensor) -> torch.Tensor:
        scale, zero = Q.choose_qparams(x, 0, 255, 2**-12, torch.uint8)
        codes = Q.quantize_per_tensor.tensor(x, scale, zero, *U8)
        real: torch.Tensor = Q.dequantize_per_tensor.tensor(codes, scale, zero, *U8)
        return real


def contractions(model: torch.nn.Module, *args: torch.Tensor) -> list[Op]:
    module = lower(capture_torch(model, args), "fused")
    return [op for op in module.main.walk() if op.short in ("matmul", "conv")]


def types(model: torch.nn.Module, *args: torch.Tensor) -> list[list[str]]:
    """The types that each product multiplies and sums up in."""
    return [
        [v.type.dtype.name for v in (*op.operands[:2], op.result)]
        for op in contractions(model, *args)
    ]


def check(model: torch.nn.Module, *args: torch.Tensor) -> None:
    compiled = cuvil.compile(model, args)
    torch.testing.assert_close(compiled(*args), model(*args), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zero,ends", [(125, U8), (0, U8), (0, I8), (-3, I8)])
def test_linear(zero: int, ends: Any) -> None:
    model, x = Layer((24, 48), zero, ends), torch.randn(5, 48) * 2
    assert types(model, x) == [["u8" if ends is U8 else "i8", "i8", "i32"]]
    check(model, x)
    check(model, torch.randn(2, 3, 48) * 2)


@pytest.mark.parametrize(
    "conv", [{}, {"padding": 1}, {"padding": 1, "stride": 2}, {"padding": 2, "dilation": 2}]
)
@pytest.mark.parametrize("zero,ends", [(125, U8), (0, U8), (-3, I8)])
def test_convolution(zero: int, ends: Any, conv: dict[str, int]) -> None:
    """What is around the image is 0, which the zero point stands for."""
    model = Layer((8, 16, 3, 3), zero, ends, **conv)
    x = torch.randn(2, 16, 9, 7) * 2
    assert [t[2] for t in types(model, x)] == ["i32"]
    check(model, x)


@pytest.mark.parametrize("spatial", [1, 3])
def test_convolution_of_other_ranks(spatial: int) -> None:
    model = Layer((8, 16, *[3] * spatial), padding=1)
    check(model, torch.randn(2, 16, *[6] * spatial))


def test_groups() -> None:
    check(Layer((8, 16, 3, 3), padding=1, groups=2), torch.randn(2, 32, 6, 6))


def test_few_channels_stay_floats() -> None:
    model, x = Layer((8, 3, 3, 3), padding=1), torch.randn(2, 3, 6, 6)
    assert types(model, x) == [["f32", "f32", "f32"]]
    check(model, x)


def test_weights_with_zero_points_that_fit() -> None:
    model, x = Layer((24, 48)), torch.randn(5, 48)
    model.weight //= 2
    model.zeros += torch.arange(24) - 12
    assert types(model, x) == [["u8", "i8", "i32"]]
    check(model, x)


def test_weights_that_leave_bytes_stay_floats() -> None:
    model, x = Layer((24, 48)), torch.randn(5, 48)
    model.weight[0, 0] = 127
    model.zeros -= 12
    assert types(model, x) == [["f32", "f32", "f32"]]
    check(model, x)


def test_scales_that_are_no_numbers_stay_floats() -> None:
    model, x = Layer((24, 48)), torch.randn(5, 48)
    model.scales[3] = float("inf")
    assert types(model, x) == [["f32", "f32", "f32"]]


def test_dynamic_scales() -> None:
    model, x = Dynamic((24, 48)), torch.randn(5, 48) * 2
    assert types(model, x) == [["u8", "i8", "i32"]]
    check(model, x)


def test_dynamic_scale_of_infinity() -> None:
    """Steps of an infinite size: what is 0 of them is no number, and so are the sums."""
    model, x = Dynamic((24, 48)), torch.randn(5, 48)
    compiled = cuvil.compile(model, (x,))
    x[0, 0] = float("inf")
    assert model(x).isnan().all()
    assert compiled(x).isnan().all()
