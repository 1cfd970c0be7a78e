"""Torch's fused transformer layers against the same layers in float64, masks of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuvil
from cuvil.frontends.torch_export.fused_layers import FUSED
from cuvil.integrations.dynamo import clear_report, report

LAYER, ATTENTION = FUSED
WIDTH, HEADS, BATCH, STEPS = 16, 4, 3, 5


def _some(*shape: int) -> Tensor:
    return torch.randn(*shape) * 0.3


def _masks() -> list[tuple[Tensor | None, int | None]]:
    torch.manual_seed(1)
    rows = torch.rand(STEPS, STEPS) < 0.4
    rows[2] = True  # a query with no key
    keys = torch.rand(BATCH, STEPS) < 0.4
    every = torch.rand(BATCH, HEADS, STEPS, STEPS) < 0.4
    added = torch.zeros(BATCH, STEPS).masked_fill(keys, float("-inf"))
    return [(None, None), (rows, 0), (keys, 1), (every, 2), (added, 1)]


def _attention_weights() -> tuple[Tensor, ...]:
    return _some(3 * WIDTH, WIDTH), _some(3 * WIDTH), _some(WIDTH, WIDTH), _some(WIDTH)


def _layer_weights() -> tuple[Tensor, ...]:
    norms = tuple(_some(WIDTH) for _ in range(4))
    return (*norms, _some(24, WIDTH), _some(24), _some(WIDTH, 24), _some(WIDTH))


def _double(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if floating else value


def _agree(rule: Any, arguments: tuple[Any, ...]) -> None:
    found = FUSED[rule](*arguments)
    wanted = rule(*map(_double, arguments))
    pairs = [(found, wanted)] if isinstance(found, Tensor) else zip(found, wanted, strict=True)
    for have, want in pairs:
        if want is not None:  # weights that nobody wants
            torch.testing.assert_close(have.double(), want, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(("gelu", "norm_first"), list(itertools.product((False, True), repeat=2)))
def test_a_layer_is_its_parts(gelu: bool, norm_first: bool) -> None:
    torch.manual_seed(0)
    x, attention, rest = _some(BATCH, STEPS, WIDTH), _attention_weights(), _layer_weights()
    for mask in _masks():
        _agree(LAYER, (x, WIDTH, HEADS, *attention, gelu, norm_first, 1e-5, *rest, *mask))


@pytest.mark.parametrize(("weights", "average"), list(itertools.product((False, True), repeat=2)))
def test_an_attention_is_its_parts(weights: bool, average: bool) -> None:
    torch.manual_seed(0)
    x, own = _some(BATCH, STEPS, WIDTH), _attention_weights()
    for mask, kind in _masks():
        _agree(ATTENTION, (x, x, x, WIDTH, HEADS, *own, mask, weights, average, kind))


def _layer(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 24, batch_first=True, **options).eval()


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 24, batch_first=True)
    return nn.TransformerEncoder(layer, 2).eval()


CAUSAL = torch.ones(STEPS, STEPS).triu(1).bool()
PADDED = torch.arange(STEPS)[None] >= torch.tensor([5, 3, 1])[:, None]


@pytest.mark.parametrize(
    ("make", "masks"),
    [
        (_layer, {}),
        (lambda: _layer(norm_first=True, activation="gelu"), {"src_key_padding_mask": PADDED}),
        (_layer, {"src_mask": CAUSAL, "src_key_padding_mask": PADDED}),
        (_encoder, {"mask": CAUSAL}),
    ],
)
def test_torch_compile_has_no_graph_left(
    make: Callable[[], nn.Module], masks: dict[str, Tensor]
) -> None:
    torch._dynamo.reset()
    clear_report()
    model, x = make(), torch.randn(BATCH, STEPS, WIDTH)
    with torch.no_grad():
        found = torch.compile(model, backend="cuvil", dynamic=False)(x, **masks)
        assert not [g.reason for g in report().graphs if g.reason]
        wanted = model.double()(x.double(), **masks)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


class Fused(nn.Module):
    """A program that was exported where torch had taken the fused layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.own = nn.ParameterList([*_attention_weights(), *_layer_weights()])

    def forward(self, x: Tensor) -> Tensor:
        attention, rest = list(self.own)[:4], list(self.own)[4:]
        found: Tensor = LAYER(x, WIDTH, HEADS, *attention, True, False, 1e-5, *rest)
        return found


def test_a_program_with_the_fused_layer() -> None:
    model, x = Fused(), _some(BATCH, STEPS, WIDTH)
    program = torch.export.export(model, (x,))
    assert "_transformer_encoder_layer_fwd" in program.graph_module.code
    found = cuvil.compile(program)(x)
    with torch.no_grad():
        wanted = model.double()(x.double())
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
