"""Operators of PyTorch's own quantisation, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

from cuvil.frontends.torch_export import capture_torch
from cuvil.frontends.torch_export.weights import to_numpy
from tests.frontends.torch_helper import Fn, interpret, tensors_of

Q: Any = torch.ops.quantized_decomposed
U8 = (0, 255, torch.uint8)
I8 = (-128, 127, torch.int8)
FEW = (-7, 9, torch.int8)
I16 = (-32768, 32767, torch.int16)
SCALE = 0.030608752742409706


def hostile(scale: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers about the ties between steps, far beyond the range, zeros, infinities and NaN."""
    ties = (torch.arange(-300, 300) + 0.5) * scale
    near = torch.cat([ties, torch.nextafter(ties, torch.tensor(0.0)), ties * (1 + 1e-6)])
    odd = [0.0, -0.0, 1e-40, 1e9, -1e9, float("inf"), -float("inf"), float("nan")]
    torch.manual_seed(0)
    return torch.cat([near, torch.tensor(odd), torch.randn(1016) * 100 * scale]).to(dtype)


def same(function: Callable[..., Any], *args: torch.Tensor) -> None:
    """The translation gives the bytes that torch does, run by the operators' references."""
    module = capture_torch(Fn(function), args)
    found, wanted = interpret(module, args), tensors_of(function(*args))
    assert len(found) == len(wanted)
    for have, want in zip(found, wanted, strict=True):
        assert have.shape == want.shape
        np.testing.assert_array_equal(have, to_numpy(want))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("zero,ends", [(125, U8), (0, U8), (-3, I8), (2, FEW), (5, I16)])
def test_quantize_per_tensor(zero: int, ends: Any, dtype: torch.dtype) -> None:
    same(lambda x: Q.quantize_per_tensor(x, SCALE, zero, *ends), hostile(SCALE, dtype))


def test_the_data_are_multiplied_and_not_divided() -> None:
    """At some of these numbers x / scale rounds to another step than x * (1 / scale)."""
    scale = 0.1
    x = torch.from_numpy(((np.arange(-3000, 3000) + 0.5) * scale).astype(np.float32))
    assert (torch.round(x * (1.0 / scale)) != torch.round(x / scale)).any()
    same(lambda x: Q.quantize_per_tensor(x, scale, 0, *I16), x)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_parameters_in_tensors(kind: torch.dtype) -> None:
    x = hostile(SCALE)
    scale, zero = torch.tensor([SCALE], dtype=kind), torch.tensor([7])
    low, high = torch.tensor(-100), torch.tensor(101)
    same(lambda x, s, z: Q.quantize_per_tensor.tensor(x, s, z, *U8), x, scale, zero)
    same(lambda x: Q.quantize_per_tensor.tensor(x, scale, zero, *U8), x)
    same(
        lambda x, s, z, a, b: Q.quantize_per_tensor.tensor2(x, s, z, a, b, torch.int8),
        x, scale, zero, low, high,
    )  # fmt: skip
    codes = torch.arange(-128, 128, dtype=torch.int8)
    same(lambda x, s, z: Q.dequantize_per_tensor.tensor(x, s, z, *I8), codes, scale, zero)
    same(lambda x: Q.dequantize_per_tensor.tensor(x, scale, zero, *I8), codes)
    same(
        lambda x, s, z, a, b: Q.dequantize_per_tensor.tensor2(x, s, z, a, b, torch.int8),
        codes, scale, zero, low, high,
    )  # fmt: skip


@pytest.mark.parametrize("out", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("zero", [0, 3, -128])
@pytest.mark.parametrize("ends", [U8, I8, I16, (-(2**31), 2**31 - 1, torch.int32)])
def test_dequantize_per_tensor(ends: Any, zero: int, out: torch.dtype | None) -> None:
    codes = torch.linspace(max(ends[0], -(2**30)), min(ends[1], 2**30), 256).to(ends[2])
    same(lambda x: Q.dequantize_per_tensor(x, SCALE, zero, *ends, out_dtype=out), codes)


CHANNELS = torch.tensor([0.01, 0.3, SCALE])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_per_channel(kind: torch.dtype, axis: int) -> None:
    scales, zeros = CHANNELS.to(kind), torch.tensor([0, -5, 17])
    x = torch.stack([hostile(float(s)) for s in CHANNELS])
    x = x.reshape(3, 1, -1).movedim(0, axis).contiguous()
    same(lambda x, s, z: Q.quantize_per_channel(x, s, z, axis, *I8), x, scales, zeros)
    same(lambda x: Q.quantize_per_channel(x, scales, zeros, axis, *I8), x)
    codes = torch.randint(-128, 128, tuple(x.shape)).to(torch.int8)
    for z in (zeros, torch.zeros(3, dtype=torch.int64), None):
        same(lambda x, z=z: Q.dequantize_per_channel(x, scales, z, axis, *I8), codes)
    same(lambda x, s, z: Q.dequantize_per_channel(x, s, z, axis, *I8), codes, scales, zeros)


@pytest.mark.parametrize("zero", [torch.int8, torch.int32, torch.float32])
def test_zero_points_of_other_types(zero: torch.dtype) -> None:
    """Of two int8 torch takes the difference in int8, which wraps."""
    zeros, codes = torch.tensor([0, -5, 17]).to(zero), torch.arange(-128, 127).to(torch.int8)
    codes = codes.reshape(3, 85)
    same(lambda x: Q.dequantize_per_channel(x, CHANNELS, zeros, 0, *I8), codes)


DATA = {
    "both signs": torch.linspace(-3, 5, 77).reshape(7, 11),
    "positive": torch.linspace(0.5, 5, 77).reshape(7, 11),
    "negative": torch.linspace(-5, -0.5, 77).reshape(7, 11),
    "zeros": torch.zeros(7, 11),
    "tiny": torch.linspace(-3e-9, 2e-9, 77).reshape(7, 11),
    "large": torch.linspace(-3e30, 2e38, 77).reshape(7, 11),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [n for n in DATA if n != "large"])
def test_choose_qparams(name: str, dtype: torch.dtype) -> None:
    x = DATA[name].to(dtype)
    for ends in (U8, I8, FEW):
        low, high, kind = ends
        same(lambda x, a=low, b=high, k=kind: Q.choose_qparams(x, a, b, 2**-12, k), x)
        same(lambda x, a=low, b=high, k=kind: Q.choose_qparams_symmetric(x, a, b, 2**-12, k), x)


@pytest.mark.parametrize("name", DATA)
def test_dynamic_quantisation(name: str) -> None:
    def whole(x: torch.Tensor) -> Any:
        scale, zero = Q.choose_qparams(x, 0, 255, 2**-12, torch.uint8)
        codes = Q.quantize_per_tensor.tensor(x, scale, zero, *U8)
        return codes, Q.dequantize_per_tensor.tensor(codes, scale, zero, *U8)

    same(whole, DATA[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [n for n in DATA if n != "large"])
def test_per_token(name: str, dtype: torch.dtype) -> None:
    def rows(choose: Any) -> Callable[[torch.Tensor], Any]:
        def function(x: torch.Tensor) -> Any:
            scale, zero = choose(x, torch.int8)
            codes = Q.quantize_per_token(x, scale, zero, *I8)
            return codes, Q.dequantize_per_token(codes, scale, zero, *I8, torch.float32)

        return function

    same(rows(Q.choose_qparams_per_token), DATA[name].to(dtype))
    same(rows(Q.choose_qparams_per_token_asymmetric), DATA[name].to(dtype))


def test_asymmetric_parameters_of_tokens() -> None:
    for x in DATA.values():
        same(lambda x: Q.choose_qparams_per_token_asymmetric(x, torch.int8), x)


def test_groups() -> None:
    torch.manual_seed(0)
    x, scales = torch.randn(4, 64), torch.rand(4, 4) + 0.01
    zeros = torch.randint(-3, 4, (4, 4), dtype=torch.int32)
    ends = (-8, 7, torch.int8)
    same(lambda x, s, z: Q.quantize_per_channel_group(x, s, z, *ends, 16), x, scales, zeros)
    codes = torch.randint(-8, 8, (4, 64)).to(torch.int8)
    for z in (zeros, None):
        same(
            lambda x, s, z=z: Q.dequantize_per_channel_group(x, s, z, *ends, 16, torch.float32),
            codes, scales,
        )  # fmt: skip


def test_convert_element_type() -> None:
    same(lambda x: Q.convert_element_type.no_fuse(x, torch.bfloat16), torch.randn(9))


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
def test_int_mm(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    a = torch.randint(0, 128, (5, 24)).to(kind)
    b = torch.randint(-128, 128, (24, 8)).to(torch.int8)
    same(lambda a: torch._int_mm(a, b), a)
    same(lambda a, b: torch._int_mm(a, b), a, b)
    same(lambda a: torch._int_mm(a, b.t().contiguous().t()), a)


def test_weight_int8pack_mm() -> None:
    """Torch scales the weights, in some builds the sums: the last bits are left open."""
    torch.manual_seed(0)
    w, scales = torch.randint(-128, 128, (8, 32)).to(torch.int8), torch.rand(8)
    x = torch.randn(5, 32)
    module = capture_torch(Fn(lambda x: torch._weight_int8pack_mm(x, w, scales)), (x,))
    wanted = (x.double() @ (w.double() * scales.double()[:, None]).T).numpy()
    np.testing.assert_allclose(interpret(module, (x,))[0], wanted, rtol=1e-5, atol=1e-3)
    torch_says = torch._weight_int8pack_mm(x, w, scales).numpy()
    np.testing.assert_allclose(torch_says, wanted, rtol=1e-5, atol=1e-3)


_LOAD = """
import sys, numpy, torch, cuvil
x = numpy.load(sys.argv[2])
assert not hasattr(torch.ops.quantized_decomposed, "quantize_per_tensor")
numpy.save(sys.argv[3], cuvil.compile(sys.argv[1])(x))
"""


def test_a_saved_program_in_a_fresh_process(tmp_path: Path) -> None:
    """Which has not imported the module that registers the operators."""
    program, data, out = (str(tmp_path / name) for name in ("a.pt2", "x.npy", "y.npy"))
    x = torch.randn(64)
    model = Fn(lambda x: Q.quantize_per_tensor(x, SCALE, 125, *U8))
    torch.export.save(torch.export.export(model, (x,)), program)
    np.save(data, x.numpy())
    subprocess.run([sys.executable, "-c", _LOAD, program, data, out], check=True)
    np.testing.assert_array_equal(np.load(out), model(x).numpy())
