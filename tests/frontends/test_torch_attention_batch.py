"""Attention whose operands have batches of different rank, against torch."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same


@pytest.mark.parametrize(
    "query, key, mask",
    [((4, 3, 8), (4, 4, 6, 8), None), ((4, 4, 3, 8), (4, 6, 8), (3, 6)),
     ((3, 8), (2, 6, 8), None), ((4, 3, 8), (2, 5, 4, 6, 8), (4, 3, 6))],
)  # fmt: skip
def test_batches_are_broadcast(
    query: tuple[int, ...], key: tuple[int, ...], mask: tuple[int, ...] | None
) -> None:
    torch.manual_seed(0)
    args = [torch.randn(s) for s in (query, key, key) + ((mask,) if mask else ())]
    model = Fn(lambda q, k, v, *m: scaled_dot_product_attention(q, k, v, *m))
    assert_same(capture_torch(model, tuple(args)), model, tuple(args), rtol=1e-5, atol=1e-5)
