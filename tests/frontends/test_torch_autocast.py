"""torch.autocast inside a model: what it casts is what torch casts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuvil
from cuvil.errors import UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch, functional
from cuvil.integrations.dynamo import clear_report, report


class Mixed(nn.Module):
    """Products in a short type, the loss and the region within in float32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line, self.dtype = nn.Linear(16, 16), dtype
        self.conv = nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=self.dtype):
            y = self.line(x)
            z = nn.functional.scaled_dot_product_attention(y[None], y[None], y[None])
            share = torch.softmax(y, -1)
            normed = nn.functional.layer_norm(y, (16,))
            loss = nn.functional.mse_loss(y, x)
            joined = torch.cat([y, x])
            with torch.autocast("cpu", enabled=False):
                plain = x @ x.T
            local = self.conv(x[:4])
        return y.float() + 1, z, share, normed, loss, joined, plain, x @ x.T, local


class Whole(nn.Module):
    """A forward that is a region as a whole, writes to a view and branches on data."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line = nn.Linear(16, 16)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x[0] += 1
        found: Tensor = torch.cond(
            x.sum() > 0, lambda x: self.line(x).float(), lambda x: (x * 2).float(), (x,)
        )
        return found


def _close(found: Any, wanted: Any, digits: float) -> None:
    assert len(found) == len(wanted)
    for have, want in zip(found, wanted, strict=True):
        assert have.dtype == want.dtype
        torch.testing.assert_close(have.float(), want.float(), rtol=digits, atol=digits)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}])
def test_a_region_gives_what_it_gives_in_torch(
    dtype: torch.dtype, digits: float, dynamic: Any
) -> None:
    model = Mixed(dtype)
    artifact = cuvil.compile(model, (torch.randn(8, 16),), dynamic_dims=dynamic)
    for rows in (8, 11) if dynamic else (8,):
        x = torch.randn(rows, 16)
        with torch.no_grad():
            _close(artifact(x), model(x), digits)


def test_the_operands_of_a_product_are_rounded() -> None:
    """Against NumPy's float64 over operands that are rounded as the region says."""

    class Product(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return (x @ y).float()

    x, y = torch.full((1, 1), 1 + 2**-9), torch.full((1, 1), 4 + 2**-5)
    found = cuvil.compile(Product(), (x, y))(x, y)
    exact = float(x.bfloat16()) * float(y.bfloat16())
    assert float(found) == exact == 4.03125 and float(x * y) != exact


def test_a_region_around_writes_and_branches() -> None:
    model, x = Whole(), torch.randn(8, 16)
    artifact = cuvil.compile(model, (x,))
    for given in (x.abs(), -x.abs() - 9):
        with torch.no_grad():
            _close([artifact(given)], [model(given)], 2e-2)


def test_torch_compile_takes_regions() -> None:
    torch._dynamo.reset()
    clear_report()
    model, x = Mixed(torch.bfloat16), torch.randn(8, 16)
    with torch.no_grad():
        _close(torch.compile(model, backend="cuvil", dynamic=False)(x), model(x), 2e-2)
    assert not [g.reason for g in report().graphs if g.reason]


def test_a_graph_that_enters_regions_by_calls_is_restored() -> None:
    """The type of a region's result is looked at within the trace."""
    torch._dynamo.reset()
    graphs: list[torch.fx.GraphModule] = []

    def kept(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def regions(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
        return y + torch.full((), 0.001, dtype=y.dtype)

    x = torch.randn(8, 16)
    wanted = torch.compile(regions, backend=kept, dynamic=False)(x)
    code = graphs[0].code
    artifact = cuvil.compile(graphs[0], (x,))
    assert graphs[0].code == code and "_enter_autocast" in code
    _close(artifact(x), [wanted], 2e-2)


def test_a_module_that_was_exported_with_regions() -> None:
    model, x = Mixed(torch.bfloat16), torch.randn(8, 16)
    exported = torch.export.export(model, (x,)).module()
    with torch.no_grad():
        _close(cuvil.compile(exported, (x,))(x), model(x), 2e-2)


def test_what_torch_can_not_write_out_is_refused_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(program: Any, table: Any) -> Any:
        raise RuntimeError("torch can't")

    monkeypatch.setattr(functional, "hidden_views", lambda program: {})
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", fails)
    with pytest.raises(UnsupportedOpError) as caught:
        capture_torch(Mixed(torch.bfloat16), (torch.randn(8, 16),))
    text = str(caught.value)
    assert "test_torch_autocast.py:" in text and "take the `with torch.autocast` out" in text
