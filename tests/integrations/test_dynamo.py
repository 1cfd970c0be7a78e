"""Cuvil as a backend of torch.compile: static graphs, and what stays with PyTorch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from cuvil.errors import InputError
from cuvil.integrations.dynamo import backend, clear_report, report


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    clear_report()
    yield
    torch._dynamo.reset()


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3))


def test_a_model_runs_compiled(caplog: pytest.LogCaptureFixture) -> None:
    model = _model().eval()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    x = torch.randn(5, 8)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "cuvil"):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)
    assert not caplog.records
    assert report().compiles == 1 and report().graphs[0].calls == 1


def test_gradients_stay_with_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    model = _model()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    with caplog.at_level(logging.WARNING, "cuvil"):
        compiled(torch.randn(5, 8)).sum().backward()
    assert next(model.parameters()).grad is not None
    assert "gradients are wanted" in caplog.text
    assert "gradients are wanted" in report().graphs[0].reason


def _written(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1) * 2


def _shared(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    return y, y[0]


def _sizes(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    return x[1:], x.shape[0] * 3


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_written, "it writes to its inputs: l_x_"),
        (_shared, "outputs [0, 1] share memory"),
        (lambda x: x + torch.rand(4, 6), "it draws random numbers: aten.rand.default"),
        (lambda x: torch.dropout(x, 0.5, True), "it draws random numbers"),
        (_sizes, "nothing but sizes and views"),
    ],
)
def test_what_an_artifact_can_not_do_stays_with_pytorch(
    function: Callable[..., Any], reason: str
) -> None:
    compiled = torch.compile(function, backend=backend, dynamic=True)
    x = torch.randn(4, 6)
    given, expected = x.clone(), x.clone()
    torch.manual_seed(1)
    found = compiled(given)
    torch.manual_seed(1)
    wanted = function(expected)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(given, expected)
    (graph,) = report().graphs
    assert reason in graph.reason and not graph.compiled


def test_attention_without_dropout_is_not_random() -> None:
    def attend(q: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    compiled = torch.compile(attend, backend=backend, dynamic=False)
    q = torch.randn(1, 2, 5, 8)
    torch.testing.assert_close(compiled(q), attend(q), rtol=1e-5, atol=1e-5)
    assert report().compiles == 1


def test_weights_that_change_are_seen() -> None:
    """Parameters are inputs; frozen ones are watched."""
    model = _model().eval()
    x = torch.randn(5, 8)
    for options, refused in ((None, 0), ({"freeze": True}, 1)):
        torch._dynamo.reset()
        clear_report()
        compiled = torch.compile(model, backend=backend, dynamic=False, options=options)
        with torch.no_grad():
            compiled(x)
            model[0].weight.mul_(2)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)
        (graph,) = report().graphs
        assert graph.compiled and sum(graph.refused.values()) == refused
        assert ("4 parameters" in graph.signature) is (options is None)


def test_a_break_of_the_graph_gives_two_graphs_and_its_reason() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y.relu() + 1

    compiled = torch.compile(broken, backend=backend, dynamic=True)
    for n in (3, 5):
        x = torch.randn(n, 4)
        torch.testing.assert_close(compiled(x), broken(x))
    found = report()
    assert found.compiles == len(found.graphs) == 2
    assert any("graph_break" in why for why in found.breaks)
    assert "break (" in str(found) and found.as_dict()["compiles"] == 2


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(InputError, match="no option 'fast'"):
        backend(torch.fx.symbolic_trace(_model()), (torch.randn(5, 8),), {"fast": 1})
