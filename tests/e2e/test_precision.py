"""Whole models compiled for bf16: how near they are, what the artifact says, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import cuvil
from cuvil.cli.main import app
from cuvil.target.registry import find_target
from tests.e2e.models import convnet, transformer, transformer_inputs


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path / "cache"))


def far(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest error over the largest number."""
    return float((got - want).abs().max() / want.abs().max())


def test_a_transformer_is_as_near_as_bf16_is() -> None:
    model = transformer()
    inputs = transformer_inputs(2, 9)
    compiled = cuvil.compile(model, inputs, precision="bf16")
    with torch.no_grad():
        want = model(*inputs)
    got = compiled(*inputs)
    for name in want:
        assert got[name].dtype == torch.float32
        assert 1e-5 < far(got[name], want[name]) < 2e-2
    assert cuvil.verify(compiled, layerwise=True).passed
    assert not cuvil.verify(compiled, atol=1e-5, rtol=1e-3).passed


def test_a_network_of_convolutions_and_its_portable_form() -> None:
    """Machines without a dot product of pairs differ by the order of sums alone."""
    model, x = convnet(), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        want = model(x)
    got = cuvil.compile(model, (x,), precision="bf16")(x)
    assert 1e-5 < far(got, want) < 2e-2
    here, other = (set(find_target(name).cpu_features) for name in ("native", "x86_64_v3"))
    if not other <= here:
        pytest.skip("this machine can't run x86_64_v3")
    portable = cuvil.compile(model, (x,), precision="bf16", target="x86_64_v3")(x)
    assert far(portable, got) < 4e-3  # one rounding of an activation may turn out otherwise


@pytest.mark.parametrize(("dim", "causal"), [(24, False), (33, True)])
def test_attention_at_lengths_that_stay_open(dim: int, causal: bool) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def drawn(length: int) -> list[torch.Tensor]:
        return [torch.randn(2, 3, length, dim) for _ in range(3)]

    dims = {name: {2: "length"} for name in "qkv"}
    compiled = cuvil.compile(attend, tuple(drawn(20)), precision="bf16", dynamic_dims=dims)
    least = 1e-5 if find_target("native").multiplies_pairs else 0
    for length in (4, 31, 300, 1001):
        x = drawn(length)
        assert least <= far(compiled(*x), attend(*x)) < 1e-2
    short = drawn(3)
    assert far(compiled(*short), attend(*short)) < 1e-6  # few rows are not worth rounding


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_round_inputs_and_weights(layer: str) -> None:
    """PyTorch in double precision on rounded numbers is what f32 sums come near to."""
    model, x = getattr(torch.nn, layer)(13, 20, bidirectional=True).eval(), torch.randn(9, 3, 13)
    compiled = cuvil.compile(model, (x,), precision="bf16")
    exact = getattr(torch.nn, layer)(13, 20, bidirectional=True).double().eval()
    weights = {
        name: value.bfloat16() if name.startswith("weight") else value
        for name, value in model.state_dict().items()
    }
    exact.load_state_dict(weights)
    with torch.no_grad():
        want, got = exact(x.bfloat16().double())[0], compiled(x)[0]
        assert far(got, want) < 2e-5  # where states are multiplied with 16 bits of them
        assert far(got, model(x)[0]) > 1e-4
    plain = cuvil.compile(model, (x,), verify=False)
    assert compiled.manifest.weights_bytes < 0.7 * plain.manifest.weights_bytes


def test_weights_take_half_the_room_and_inspect_tells(tmp_path: Path) -> None:
    model, x = torch.nn.Linear(256, 512).eval(), torch.randn(1, 256)
    sizes = {}
    for precision in ("f32", "bf16"):
        path = tmp_path / f"{precision}.cuvilpkg"
        cuvil.compile(model, (x,), precision=precision).save(path)
        sizes[precision] = cuvil.load(path).manifest.weights_bytes
        shown = CliRunner().invoke(app, ["inspect", str(path)]).output
        assert any(line.split() == ["precision", precision] for line in shown.splitlines())
    assert sizes["f32"] - sizes["bf16"] == 256 * 512 * 2


def test_precisions_are_told_apart_in_the_cache() -> None:
    model, x = torch.nn.Linear(64, 8).eval(), torch.randn(3, 64)
    wide = cuvil.compile(model, (x,))
    narrow = cuvil.compile(model, (x,), precision="bf16")
    again = cuvil.compile(model, (x,), precision="bf16")
    np.testing.assert_array_equal(narrow(x), again(x))
    assert not np.array_equal(narrow(x), wide(x))


@pytest.mark.parametrize("precision", ["f16", "BF16", "", "bfloat16"])
def test_unknown_precisions_are_refused(precision: str) -> None:
    with pytest.raises(cuvil.CuvilError, match="(?s)precision is.*'f32' or 'bf16'"):
        cuvil.compile(torch.nn.Linear(2, 2), (torch.ones(1, 2),), precision=precision)
