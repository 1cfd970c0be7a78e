"""Arguments of compiling that can't be meant are refused by name, alike for each framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto, helper

import cuvil
from cuvil.errors import InputError


def _relu() -> ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class _Relu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


WRONG: list[dict[str, Any]] = [
    {"dynamic_dims": {"x": 5}},
    {"dynamic_dims": {"x": {"a": "n"}}},
    {"dynamic_dims": {"x": {9: "n"}}},
    {"dynamic_dims": {"x": {-3: "n"}}},
    {"dynamic_dims": {"x": {0: object()}}},
    {"dynamic_dims": {"q": {0: "n"}}},
    {"dynamic_dims": 5},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_dims_that_are_none(wrong: dict[str, Any]) -> None:
    for model, more in ((_relu(), {}), (_Relu(), {"example_inputs": (torch.ones(2, 8),)})):
        with pytest.raises(InputError):
            cuvil.compile(model, **more, **wrong)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((1, 2, 3), "has 1 input, of example_inputs 3 were given"),
        ({"zz": np.ones((1, 8), np.float32)}, "names the input 'zz'"),
    ],
)
def test_examples_of_no_input(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        cuvil.compile(_relu(), example_inputs=given)


@pytest.mark.parametrize("dims", [["k"], {0: "k"}, ("k", None), {np.int64(-2): "k"}])
def test_dims_by_axis_or_in_a_row(dims: Any) -> None:
    compiled = cuvil.compile(_relu(), dynamic_dims={"x": dims})
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
    np.testing.assert_array_equal(compiled(x), np.maximum(x, 0))
    assert str(compiled.inputs[0].shape[0]) == "k"
