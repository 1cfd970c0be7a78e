"""Models as WebAssembly: built, verified and called through Node.js, each module of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InputError, ShapeConstraintError, TargetError
from cuvil.runners.built import Built
from cuvil.runners.node import run_with
from cuvil.target.wasm import WASM_VARIANTS
from tests.web.node import needs_node

pytestmark = needs_node
WAYS = [(relaxed, threads) for relaxed in (False, True) for threads in (1, 2)]
NAN, INF = float("nan"), float("inf")


def built(model: Any, *examples: torch.Tensor, **options: Any) -> Built:
    made = cuvil.compile(model, examples, target="wasm", **options)
    assert isinstance(made, Built)
    return made


def run_all(made: Built, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The first output, from each of the package's modules."""
    inputs = dict(zip((spec.name for spec in made.inputs), arrays))
    found = []
    for relaxed, threads in WAYS:
        outputs = run_with(made.package, inputs, {"relaxed": relaxed, "threads": threads})
        if outputs is not None:
            found.append(next(iter(outputs.values())))
    assert len(found) >= 2, "the modules without relaxed SIMD run everywhere"
    return found


def test_a_package_holds_a_module_for_each_set_of_features() -> None:
    made = built(torch.nn.Linear(3, 2), torch.ones(2, 3), verify=False)
    parts = {name.removesuffix(".wasm") for name in made.package.parts}
    assert parts == set(WASM_VARIANTS) - {""}
    assert all(m.startswith(b"\0asm\1\0\0\0") for m in made.package.parts.values())


def test_it_is_verified_and_called_at_any_batch() -> None:
    layer = torch.nn.Linear(64, 10)
    made = built(layer, torch.ones(2, 64), dynamic_dims=["batch"])
    weight, bias = (p.detach().numpy().astype(np.float64) for p in (layer.weight, layer.bias))
    for batch in (0, 1, 7):
        x = np.random.default_rng(batch).standard_normal((batch, 64)).astype(np.float32)
        np.testing.assert_allclose(made(x), x @ weight.T + bias, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeConstraintError):
        made(np.ones((2, 65), np.float32))


def test_every_module_gives_the_products_of_numpy() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 24, 3, 2, 1), torch.nn.ReLU6(),
        torch.nn.Conv2d(24, 24, 3, 1, 1, groups=24), torch.nn.Hardtanh(-0.5, 0.5),
        torch.nn.Conv2d(24, 40, 1),
    )  # fmt: skip
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    expected = model.double()(x.double()).detach().numpy()
    for found in run_all(built(model.float(), x), x.numpy()):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_nan_passes_every_clamp_in_every_module() -> None:
    """The relaxed minimum and maximum of WebAssembly may lose a NaN."""
    layer = torch.nn.Conv2d(4, 24, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    model = torch.nn.Sequential(
        layer, torch.nn.ReLU6(), torch.nn.Conv2d(24, 24, 3, 1, 1, groups=24), torch.nn.ReLU6(),
        torch.nn.Sigmoid(),
    )  # fmt: skip
    x = torch.zeros(1, 4, 9, 9)
    x[0, 0, 4, 4] = NAN
    x[0, 1, 0, 0] = INF
    expected = model(x).detach().numpy()
    assert np.isnan(expected).sum() == 24 * 9
    for found in run_all(built(model, torch.randn(1, 4, 9, 9)), x.numpy()):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


class Recurrent(torch.nn.Module):
    """An LSTM, a GRU and an RNN of 36 units: nine vectors, so no number at once divides them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        kinds = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
        self.layers = torch.nn.ModuleList(kind(5, 36, batch_first=True) for kind in kinds)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([layer(x)[0] for layer in self.layers])


def test_recurrent_layers_of_one_row_and_of_several() -> None:
    model = Recurrent().eval()
    made = built(model, torch.randn(2, 7, 5), dynamic_dims=["batch"], verify=False)
    generator = torch.Generator().manual_seed(2)
    inputs = [torch.randn(batch, 7, 5, generator=generator) for batch in (1, 3)]
    model.double()
    for x in inputs:
        expected = model(x.double()).detach().numpy()
        for found in run_all(made, x.numpy()):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_late_sizes_and_integers() -> None:
    class Found(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nonzero(x)

    x = np.array([[0, 1, 1], [2, 0, 0]], np.int32)
    for found in run_all(built(Found(), torch.ones(2, 3, dtype=torch.int32)), x):
        np.testing.assert_array_equal(found, np.argwhere(x))


def test_an_index_out_of_range_is_an_error() -> None:
    made = built(torch.nn.Embedding(5, 3), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(InputError, match="index 7 in a dimension of size 5"):
        made(np.array([1, 7]))


def test_another_artifact_saves_as_wasm(tmp_path: Path) -> None:
    native = cuvil.compile(torch.nn.Linear(3, 2), (torch.ones(2, 3),))
    files = {path.name for path in native.save(tmp_path / "net.wasm")}
    assert files == {
        "net.wasm", "net.relaxed.wasm", "net.threads.wasm", "net.relaxed-threads.wasm",
        "net.mjs", "net.d.mts",
    }  # fmt: skip
    with pytest.raises(TargetError, match="not available"):
        native.save(tmp_path / "net.wat")
