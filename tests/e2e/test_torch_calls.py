"""Compiled PyTorch modules called with what their forward takes, giving what it gives."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InputError
from tests.frontends.torch_helper import Fn


@dataclass
class Pair:
    """A dataclass that torch's own tree functions take for a leaf."""

    a: torch.Tensor
    b: torch.Tensor


class OfPair(torch.nn.Module):
    def forward(self, s: torch.Tensor, d: Pair) -> torch.Tensor:
        return s * d.a - d.b


def test_a_dataclass_as_output_and_as_input() -> None:
    x = torch.randn(2, 3)
    out: Any = cuvil.compile(Fn(lambda x: Pair(x * 2, x + 1)), (x,))(x)
    assert isinstance(out, Pair)
    torch.testing.assert_close(out.a, x * 2)
    torch.testing.assert_close(out.b, x + 1)
    artifact = cuvil.compile(OfPair(), (x, Pair(x + 1, x * 3)))
    assert cuvil.verify(artifact).passed
    torch.testing.assert_close(artifact(x, Pair(x, x + 2)), x * x - (x + 2))


def test_bfloat16_stays_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    model, x = torch.nn.Linear(8, 8).bfloat16(), torch.randn(2, 8).bfloat16()
    artifact = cuvil.compile(model, (x,), dynamic_dims=[{0: "n"}])
    with torch.no_grad():
        want = model(x)
    got = artifact(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    array = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    again = artifact(array)
    assert again.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(again.astype(np.float32), got.float().numpy())
    with pytest.raises(InputError, match=r"\.astype\(ml_dtypes\.bfloat16\)"):
        artifact(x.float().numpy())
    assert cuvil.verify(artifact, x).passed
    examples = cuvil.compile(model, (array,))
    np.testing.assert_array_equal(examples(x).float(), got.float())


def test_other_mappings_come_out_as_dicts_in_the_models_order() -> None:
    x = torch.randn(2, 3)
    out: Any = cuvil.compile(Fn(lambda x: OrderedDict(z=x * 2, a=x + 1)), (x,))(x)
    assert type(out) is dict
    assert list(out) == ["z", "a"]
    torch.testing.assert_close(out["z"], x * 2)
    torch.testing.assert_close(out["a"], x + 1)
