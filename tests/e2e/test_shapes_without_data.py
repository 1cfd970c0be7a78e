"""Tensors on torch's meta device: an artifact as shape inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.cli.text import facts, signature_text


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"both": torch.cat([x, y], 1), "most": x.argmax(1)}


@pytest.fixture(scope="module")
def net() -> Any:
    example = (torch.randn(2, 8), torch.randn(2, 3))
    dims = [{0: "batch", 1: "seq"}, {0: "batch"}]
    constraints = ["seq % 8 == 0"]
    return cuvil.compile(Net(), example, dynamic_dims=dims, constraints=constraints, verify=False)


def _meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def test_meta_tensors_give_shapes_and_dtypes(net: Any) -> None:
    for batch, seq in ((1, 8), (5, 16), (0, 24)):
        given = (_meta(batch, seq), _meta(batch, 3))
        found, expected = net(*given), Net()(*given)
        assert list(found) == list(expected)
        for name, tensor in expected.items():
            assert found[name].is_meta
            assert (found[name].shape, found[name].dtype) == (tensor.shape, tensor.dtype)


def test_nothing_is_computed(net: Any) -> None:
    found = net(_meta(1 << 20, 1 << 13), _meta(1 << 20, 3))  # 32 GiB, were there data
    assert found["both"].shape == (1 << 20, (1 << 13) + 3)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((_meta(2, 12), _meta(2, 3)), "seq % 8 == 0.*given by the user.*seq = 12"),
        ((_meta(2, 8), _meta(3, 3)), "'y', axis 0 is 3; expected batch = 2"),
        ((_meta(2, 8), torch.zeros(2, 3)), "'y' holds data, while another input is on the meta"),
        ((_meta(2, 8), _meta(2, 3, dtype=torch.int32)), "'y' has dtype torch.int32"),
    ],
)
def test_calls_without_data_are_checked_too(net: Any, args: Any, words: str) -> None:
    with pytest.raises(cuvil.CuvilError, match=words):
        net(*args)


def test_there_is_nothing_to_write(net: Any) -> None:
    out = {"most": np.zeros(2, np.int64)}
    with pytest.raises(cuvil.CuvilError, match="nothing to write to out"):
        net.run({"x": _meta(2, 8), "y": _meta(2, 3)}, out=out)


def test_the_type_is_shown_with_the_origin_of_each_constraint(net: Any) -> None:
    signature = net.manifest.signature
    assert signature_text(signature) == (
        "forall batch, seq. (x: f32[batch, seq], y: f32[batch, 3]) -> "
        "(both: f32[batch, seq + 3], most: i64[batch])"
    )
    shown = "\n".join(facts(signature))
    for words in (
        "0 <= batch  (given by the user as 'batch' for axis 0 of 'x')",
        "given by the user as 'seq' for axis 1 of 'x'",
        "seq % 8 == 0  (given by the user as 'seq % 8 == 0')",
    ):
        assert words in shown


def test_a_size_that_depends_on_data_needs_data() -> None:
    class Kept(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0]

    artifact = cuvil.compile(Kept(), (torch.randn(4),), dynamic_dims=[["n"]], verify=False)
    with pytest.raises(cuvil.CuvilError, match="depends on data, and the inputs have none"):
        artifact(_meta(4))
    assert artifact(torch.tensor([1.0, -1.0])).shape == (1,)


@pytest.mark.parametrize("value", [None, (2, 8), np.float32])
def test_what_is_no_array_is_refused(net: Any, value: Any) -> None:
    with pytest.raises(cuvil.CuvilError, match="input 'x' is (None; it was|.*, not) an array"):
        net(value, np.zeros((2, 3), np.float32))
