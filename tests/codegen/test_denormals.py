"""Weights that are denormal: products are as right as f32 has them, and as fast as others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvil
from cuvil.codegen.denormals import without_denormals

TINY = 1e-40
INF = np.inf


def test_denormals_beside_larger_weights_are_rounded_away_from_zero() -> None:
    weights = np.array([[0.5, TINY], [TINY, 0.0], [-TINY, -2e-39]], np.float32)  # [k, n]
    found = without_denormals(weights, "gemm")
    instead = 2.0**-100
    wanted = np.array([[0.5, instead], [instead, 0.0], [-instead, -instead]], np.float32)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("packing", ["gemm_i8", "block_values", ""])
def test_other_constants_stay(packing: str) -> None:
    weights = np.array([[0.5], [TINY]], np.float32)
    assert without_denormals(weights, packing) is weights


def test_a_layer_of_small_weights_alone_stays() -> None:
    weights = np.array([[TINY, 2.0**-41]], np.float32)
    assert without_denormals(weights, "conv") is weights


def test_normal_weights_are_not_copied() -> None:
    weights = np.array([[0.0, -0.0, 2.0**-126, INF, np.nan, -1.0]], np.float32)
    assert without_denormals(weights, "gemm") is weights
    assert without_denormals(weights.astype(np.float64), "gemm").dtype == np.float64


def _layers() -> dict[str, tuple[torch.nn.Module, tuple[int, ...]]]:
    torch.manual_seed(0)
    return {
        "linear": (torch.nn.Linear(40, 24), (3, 40)),
        "conv": (torch.nn.Conv2d(20, 24, 1), (2, 20, 5, 5)),
        "winograd": (torch.nn.Conv2d(32, 32, 3, padding=1), (1, 32, 14, 14)),
        "depthwise": (torch.nn.Conv2d(24, 24, 3, groups=24), (1, 24, 9, 9)),
        "transposed": (torch.nn.ConvTranspose2d(20, 24, 2, stride=2), (1, 20, 5, 5)),
        "grouped": (torch.nn.ConvTranspose2d(8, 8, 2, groups=2), (1, 8, 5, 5)),
        "lstm": (torch.nn.LSTM(12, 10, batch_first=True), (2, 7, 12)),
    }


@pytest.mark.parametrize("name", _layers())
def test_layers_agree_with_float64(name: str) -> None:
    layer, shape = _layers()[name]
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for weight in (p for p in layer.parameters() if p.dim() > 1):
            small = torch.from_numpy(rng.random(weight.shape) < 0.3)
            weight[small] *= 1e-39
    x = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
    with torch.no_grad():
        want = layer.double()(x.double())
    want = (want[0] if isinstance(want, tuple) else want).numpy()
    with cuvil.compile(layer.float(), (x,), cache=False) as artifact:
        found = artifact(x)
    found = found[0] if isinstance(found, tuple) else found
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6)


def test_an_infinite_input_gives_an_infinity() -> None:
    layer = torch.nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[0.5, TINY, -TINY]])
    x = torch.tensor([[1.0, INF, 0.0], [1.0, 0.0, INF], [2.0, 0.0, 0.0]])
    with cuvil.compile(layer.eval(), (x,), cache=False) as artifact:
        np.testing.assert_array_equal(artifact(x).detach().numpy()[:, 0], [INF, -INF, 1.0])


def test_a_layer_of_denormal_weights_alone_is_exact() -> None:
    layer = torch.nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[TINY, 2e-40, 0.0]])
    x = torch.tensor([[2.0**20, 0.0, 5.0], [0.0, 1.0, 1.0]])
    with cuvil.compile(layer.eval(), (x,), cache=False, verify=False) as artifact:
        found = artifact(x).detach().numpy()[:, 0]
    weights = layer.weight.detach().numpy()[0]
    np.testing.assert_array_equal(found, [weights[0] * np.float32(2.0**20), weights[1]])
