"""Models quantised by torchao: pt2e with the quantizer for x86, and quantize_."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import cuvil
from cuvil.frontends.torch_export import capture_torch
from cuvil.passes.pipeline import lower

# What torchao warns of as it is imported is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("torchao", reason="makes the models")


def pt2e(model: nn.Module, x: torch.Tensor, dynamic: bool) -> Any:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=dynamic))
    prepared = prepare_pt2e(torch.export.export(model.eval(), (x,)).module(), quantizer)
    prepared(x)
    return convert_pt2e(prepared)


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))


def summed(model: Any, x: torch.Tensor) -> set[str]:
    """The types that products are summed up in."""
    module = lower(capture_torch(torch.export.export(model, (x,))), "fused")
    ops = [op for op in module.main.walk() if op.short in ("matmul", "conv")]
    return {op.type.dtype.name for op in ops}


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
def test_linear_layers_of_pt2e(dynamic: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 64)
    model = pt2e(layers(), x, dynamic)
    assert summed(model, x) == {"i32"}
    compiled = cuvil.compile(model, (x,))
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


def test_convolutions_of_pt2e() -> None:
    """Torch's sums of floats round, ours of bytes don't: at a tie a code may be off by one, which
    the last layer sums up."""
    torch.manual_seed(0)
    x = torch.randn(2, 16, 16, 16)
    model = pt2e(images(), x, dynamic=False)
    assert summed(model, x) == {"i32"}
    compiled, wanted = cuvil.compile(model, (x,)), model(x)
    assert (compiled(x) - wanted).abs().max() <= 0.01 * wanted.abs().max()


def _configs() -> dict[str, Callable[[], Any]]:
    import torchao.quantization as q

    int4 = {"weight_dtype": torch.int4}
    return {
        "dynamic": q.Int8DynamicActivationInt8WeightConfig,
        "weights": q.Int8WeightOnlyConfig,
        "float8": q.Float8WeightOnlyConfig,
        "int4": lambda: q.IntxWeightOnlyConfig(**int4, granularity=q.PerGroup(32)),
        "dynamic int4": lambda: q.Int8DynamicActivationIntxWeightConfig(
            **int4, weight_granularity=q.PerGroup(32)
        ),
    }


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("dynamic", "i32"),
        ("weights", "f32"),
        ("float8", "f32"),
        ("int4", "f32"),
        ("dynamic int4", "f32"),
    ],
)
def test_quantize_in_place(name: str, type: str) -> None:
    import torchao

    torch.manual_seed(0)
    model, x = layers().eval(), torch.randn(8, 64)
    torchao.quantize_(model, _configs()[name]())
    assert summed(model, x) == {type}
    compiled = cuvil.compile(model, (x,))
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
