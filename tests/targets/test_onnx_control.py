"""Branches, loops and sizes that depend on data, as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import cuvil
from tests.ops.values import Array

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def _model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **constants: Any) -> Any:
    values = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "control", inputs, outputs, values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _value(name: str, kind: int, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def _branches() -> Any:
    """x + 1 or, where the sum is not positive, x * x of an outer value."""
    one = helper.make_graph(
        [helper.make_node("Add", ["twice", "one"], ["a"])], "yes", [], [_value("a", FLOAT, "n")]
    )
    two = helper.make_graph(
        [helper.make_node("Mul", ["twice", "twice"], ["b"])], "no", [], [_value("b", FLOAT, "n")]
    )
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=one, else_branch=two),
    ]
    return _model(
        nodes, [_value("x", FLOAT, "n")], [_value("y", FLOAT, "n")],
        one=np.float32(1), zero=np.float32(0),
    )  # fmt: skip


def _loop() -> Any:
    """Five trips, or as long as the sum is below a limit; each trip's value is kept as a row."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "x"], ["w"]),
            helper.make_node("ReduceSum", ["w"], ["s"], keepdims=0),
            helper.make_node("Less", ["s", "limit"], ["on"]),
        ],
        "body",
        [_value("i", INT), _value("c", BOOL), _value("v", FLOAT, 3)],
        [_value("on", BOOL), _value("w", FLOAT, 3)],
    )
    rows = helper.make_graph(
        [
            helper.make_node("Identity", ["c2"], ["d2"]),
            helper.make_node("Mul", ["v2", "x"], ["w2"]),
            helper.make_node("Identity", ["w2"], ["r2"]),
        ],
        "rows",
        [_value("i2", INT), _value("c2", BOOL), _value("v2", FLOAT, 3)],
        [_value("d2", BOOL), _value("w2", FLOAT, 3), _value("r2", FLOAT, 3)],
    )
    nodes = [
        helper.make_node("Loop", ["trips", "true", "x"], ["y"], body=body),
        helper.make_node("Loop", ["four", "true", "x"], ["z", "all"], body=rows),
    ]
    return _model(
        nodes, [_value("x", FLOAT, 3)],
        [_value("y", FLOAT, 3), _value("z", FLOAT, 3), _value("all", FLOAT, 4, 3)],
        trips=np.int64(5), four=np.int64(4), true=np.bool_(True), limit=np.float32(20),
    )  # fmt: skip


def _late() -> Any:
    """The positive elements, and how far they are from their mean."""
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["mask"]),
        helper.make_node("Compress", ["x", "mask"], ["kept"], axis=0),
        helper.make_node("ReduceMean", ["kept"], ["mean"], keepdims=1),
        helper.make_node("Sub", ["kept", "mean"], ["y"]),
    ]
    return _model(nodes, [_value("x", FLOAT, "n")], [_value("y", FLOAT, None)], zero=np.float32(0))


def _floats(*values: float) -> Array:
    return np.array(values, np.float32)


CASES: dict[str, tuple[Any, list[Array]]] = {
    "if": (_branches, [_floats(1, 2), _floats(-1, -2, -3)]),
    "loop": (_loop, [_floats(1, 1, 1), _floats(9, 1, 1), _floats(30, 0, 0)]),
    "late": (_late, [_floats(1, -2, 5), _floats(3, 4, 5, -1, 7, 0)]),
}


@pytest.mark.parametrize("name", list(CASES))
def test_control_flow_and_late_sizes(name: str, tmp_path: Path) -> None:
    make, inputs = CASES[name]
    model, place = make(), tmp_path / "out.onnx"
    cuvil.compile(model, target="onnx", verify=False).save(place)
    onnx.checker.check_model(str(place), full_check=True)
    providers = ["CPUExecutionProvider"]
    before = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)
    after = onnxruntime.InferenceSession(str(place), providers=providers)
    for x in inputs:
        for got, want in zip(after.run(None, {"x": x}), before.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_rows_of_no_trips_have_their_sizes(tmp_path: Path) -> None:
    """ONNX Runtime itself gives [0, 0] where the body says [n]; the rows are [n] as x is."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Add", ["v", "x"], ["w"]),
            helper.make_node("Identity", ["w"], ["row"]),
        ],
        "body",
        [_value("i", INT), _value("c", BOOL), _value("v", FLOAT, "n")],
        [_value("d", BOOL), _value("w", FLOAT, "n"), _value("row", FLOAT, "n")],
    )
    model = _model(
        [helper.make_node("Loop", ["trips", "", "x"], ["y", "rows"], body=body)],
        [_value("trips", INT), _value("x", FLOAT, "n")],
        [_value("y", FLOAT, "n"), _value("rows", FLOAT, "k", "n")],
    )
    place = tmp_path / "out.onnx"
    cuvil.compile(model, target="onnx").save(place)
    after = onnxruntime.InferenceSession(str(place), providers=["CPUExecutionProvider"])
    x = _floats(1, 2, 4)
    for trips in (0, 2):
        y, rows = after.run(None, {"trips": np.array(trips), "x": x})
        np.testing.assert_array_equal(y, x * (trips + 1))
        wanted = np.stack([x * 2, x * 3])[:trips]
        np.testing.assert_array_equal(rows, wanted, strict=True)
