"""torch.compile with sizes that change: one artifact for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from cuvil.integrations.dynamo import backend, clear_report, report


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    clear_report()
    yield
    torch._dynamo.reset()


def test_bert_compiles_once_for_lengths_and_batches() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        vocab_size=100, max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    compiled = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad():
        for step, length in enumerate(range(7, 27)):
            ids = torch.randint(0, 100, ((4, 2, 3, 5)[step % 4], length))
            mask = torch.ones_like(ids)
            mask[0, length // 2 :] = 0
            wanted = model(input_ids=ids, attention_mask=mask).last_hidden_state
            found = compiled(input_ids=ids, attention_mask=mask).last_hidden_state
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    found = report()
    assert found.compiles == len(found.graphs) == 1, str(found)
    assert found.graphs[0].calls == 20 and not found.graphs[0].refused


def test_a_dim_that_is_marked_has_its_bounds() -> None:
    model = torch.nn.Linear(8, 4).eval()
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for length in (5, 9, 17):
            x = torch.randn(2, length, 8)
            torch._dynamo.mark_dynamic(x, 1, min=4, max=32)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
    (graph,) = report().graphs
    (text,) = graph.symbols.values()
    assert graph.calls == 3 and text.startswith("4..32, L["), str(graph)


def test_numbers_sizes_and_views() -> None:
    """Integers and floats come in, sizes and a view of an input go out."""
    norm = torch.nn.LayerNorm(8).eval()

    def function(x: torch.Tensor, k: int, s: float) -> tuple[Any, ...]:
        y = norm(x)
        if x.shape[0] % 2 == 0:
            y = y + 1
        return y.reshape(-1), x.shape[0] * k, y * k, x[1:], y * s

    compiled = torch.compile(function, backend=backend, dynamic=True)
    with torch.no_grad():
        for a, b, k in ((4, 5, 3), (6, 7, 5), (8, 9, -2)):
            x = torch.randn(a, b, 8)
            found, wanted = compiled(x, k, 0.5), function(x, k, 0.5)
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
            assert found[3].data_ptr() == wanted[3].data_ptr()
    (graph,) = report().graphs
    assert graph.refused == {"an integer is negative": 1}
    assert any("% 2 == 0" in text for text in graph.constraints)
    assert any("size()[2] == 8" in text for text in graph.fixed), graph.fixed


def test_sizes_that_data_decides_come_out() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * 2

    compiled = torch.compile(function, backend=backend, dynamic=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for n in (5, 8, 13):
            x = torch.randn(n, 3)
            torch.testing.assert_close(compiled(x), function(x))
    (graph,) = report().graphs
    assert graph.compiled and graph.calls == 3, str(graph)
