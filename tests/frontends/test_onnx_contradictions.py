"""Models that contradict themselves: attributes no operator has, and outputs declared otherwise."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, model, node, one


def _relu(kind: int, shape: Any) -> ModelProto:
    """Relu of x: f32[n, 4] with its output declared so."""
    proto = one("Relu", ("n", 4), 17)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", kind, shape))
    return proto


@pytest.mark.parametrize(
    ("op", "opset", "attrs", "name"),
    [
        ("Softmax", 17, {"axs": 0}, "axs"),
        ("Relu", 17, {"alpha": 0.5}, "alpha"),
        ("Squeeze", 13, {"axes": [0]}, "axes"),  # of opset 11: an input since
        ("ReduceSum", 13, {"axes": [0]}, "axes"),
        ("Binarizer", 1, {"treshold": 0.5}, "treshold"),
    ],
)
def test_an_attribute_that_the_operator_lacks_is_refused(
    op: str, opset: int, attrs: dict[str, Any], name: str
) -> None:
    domain = "ai.onnx.ml" if op == "Binarizer" else ""
    nodes = [node(op, ["x"], ["y"], name="odd", domain=domain, **attrs)]
    opsets = [helper.make_opsetid(domain, opset)] if domain else []
    proto = model(nodes, {"x": (FLOAT, (1, 4))}, ["y"], opset=max(opset, 13), opsets=opsets)
    said = f"{op} of opset {opset} has no attribute '{name}'"
    with pytest.raises(InvalidModelError, match=said) as caught:
        capture_onnx(proto)
    assert caught.value.where == f"odd ({op})"


@pytest.mark.parametrize("attrs", [{"consumed_inputs": [0]}, {"__scope": "layer"}])
def test_what_exporters_leave_on_nodes_is_passed_over(attrs: dict[str, Any]) -> None:
    module = capture_onnx(one("Relu", (3,), 17, **attrs))
    x = np.array([-1, 0, 2], np.float32)
    np.testing.assert_array_equal(run_module(module, {"x": x})[0], [0, 0, 2])


def test_the_attributes_of_an_earlier_opset_are_its_own() -> None:
    module = capture_onnx(one("Squeeze", (1, 3, 1), 11, axes=[0]))
    assert module.main.outputs[0].type.shape == (3, 1)


@pytest.mark.parametrize("kind", [INT64, TensorProto.DOUBLE, TensorProto.COMPLEX64])
def test_an_output_declared_of_another_type_is_refused(kind: int) -> None:
    name = TensorProto.DataType.Name(kind)
    with pytest.raises(InvalidModelError, match=f"'y' is declared {name}, .* make it f32"):
        capture_onnx(_relu(kind, None))


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (("n", 9), "[n, 9]"), (("n",), "[n]"), ((3, 4, 1), "[3, 4, 1]"), (("n", 4), None),
        ((None, None), None), (None, None), (("rows", "columns"), None), ((3, 4), None),
    ],
)  # fmt: skip
def test_an_output_declared_of_another_shape_is_said(
    shape: Any, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "cuvil"):
        module = capture_onnx(_relu(FLOAT, shape))
    assert list(map(str, module.main.outputs[0].type.shape)) == ["n", "4"]
    note = f"output 'y' is declared {said}, the model's operators make it [n, 4]"
    assert [m[: len(note)] for m in caplog.messages] == ([note] if said else [])
    assert [m[: len(note)] for m in module.source["notes"]] == ([note] if said else [])


def test_sizes_given_to_inputs_overrule_the_declared_output_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proto = one("Relu", (2, 4), 17)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, (2, 4)))
    with caplog.at_level(logging.WARNING, "cuvil"):
        module = capture_onnx(proto, input_shapes={"x": (3, 4)})
    assert module.main.outputs[0].type.shape == (3, 4)
    assert not [m for m in caplog.messages if m.startswith("output")]


def test_a_branch_that_declares_another_type_is_refused() -> None:
    def branch(op: str, kind: int) -> Any:
        out = helper.make_tensor_value_info(op, kind, None)
        return helper.make_graph([node(op, ["x"], [op])], op, [], [out])

    def choice(kind: int) -> ModelProto:
        branches = {"then_branch": branch("Exp", FLOAT), "else_branch": branch("Neg", kind)}
        nodes = [node("If", ["go"], ["y"], name="choose", **branches)]
        return model(nodes, {"go": (TensorProto.BOOL, ()), "x": (FLOAT, (2,))}, ["y"])

    capture_onnx(choice(FLOAT))
    with pytest.raises(InvalidModelError, match="'Neg' is declared INT64, .* make it f32"):
        capture_onnx(choice(INT64))
