"""Sources whose own ways of running differ from what they mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import cuvil


def test_an_encoder_with_padding_is_held_to_its_plain_computation() -> None:
    """Torch's fast path would leave padded rows as zeros; with gradients it isn't taken."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 1).eval()
    x, padded = torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)
    padded[0, 3:] = True
    inputs = {"src": x, "src_key_padding_mask": padded}
    artifact = cuvil.compile(model, inputs)
    torch.testing.assert_close(artifact(**inputs), model(**inputs).detach())


def test_inputs_may_have_any_name() -> None:
    value = helper.make_tensor_value_info
    f32 = TensorProto.FLOAT
    node = helper.make_node("Sub", ["self", "args"], ["kwargs"])
    graph = helper.make_graph(
        [node], "g", [value("self", f32, ["n"]), value("args", f32, ["n"])],
        [value("kwargs", f32, ["n"])],
    )  # fmt: skip
    artifact = cuvil.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    )
    x = np.arange(3, dtype=np.float32)
    assert artifact(args=x, self=2 * x).tolist() == x.tolist()


def test_the_depth_of_indices_is_no_symbol() -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("GatherND", ["x", "i"], ["y"])], "g",
        [value("x", TensorProto.FLOAT, [4, 5]), value("i", TensorProto.INT64, ["a", "k"])],
        [value("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(cuvil.UnsupportedOpError, match=r"the indices is symbolic \(k\)") as e:
        cuvil.compile(model)
    assert "input_spec" in str(e.value)
    spec = [("x", "float32", (4, 5)), ("i", "int64", ("a", 2))]
    assert cuvil.compile(model, input_spec=spec).outputs[0].shape == ("a",)
