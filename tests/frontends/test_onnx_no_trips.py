"""A loop that is known to make no trips gives what it began with, and stacks of no rows."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, compare, floats, model, node, retyped

BOOL = TensorProto.BOOL
PUT = helper.make_tensor_value_info


@pytest.mark.parametrize(("trips", "going"), [(0, None), (0, True), (5, False), (None, False)])
def test_scan_outputs_of_no_trips(trips: int | None, going: bool | None) -> None:
    nodes = [
        node("Add", ["v", "w"], ["u"]), node("Identity", ["c"], ["d"]), node("Shape", ["v"], ["s"])
    ]
    inputs = [PUT("i", INT64, ()), PUT("c", BOOL, ()), PUT("v", FLOAT, None)]
    outputs = [PUT(n, t, None) for n, t in zip("duus", (BOOL, FLOAT, FLOAT, INT64), strict=True)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    constants = {"w": floats(3)}
    if trips is not None:
        constants["m"] = np.array(trips, np.int64)
    if going is not None:
        constants["g"] = np.array(going)
    feeds = ["m" if trips is not None else "", "g" if going is not None else "", "x"]
    nodes = [node("Loop", feeds, ["y", "rows", "shapes"], body=body)]
    proto = model(nodes, {"x": (FLOAT, ("n", 3))}, ["y", "rows", "shapes"], constants)
    module = capture_onnx(retyped(proto, FLOAT, FLOAT, INT64))
    assert not module.main.constraints
    x = floats(2, 3)
    want = [x, np.zeros((0, 2, 3), np.float32), np.zeros((0, 2), np.int64)]
    compare(run_module(module, {"x": x}), want, 0)
