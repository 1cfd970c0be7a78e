"""One ONNX operator through ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from tests.ops.values import Array


def run_onnx(
    op: str, arrays: Sequence[Array | None], outputs: int, opset: int = 21, **attrs: Any
) -> list[Array]:
    """The outputs for these inputs (None: left out). Raises what ONNX Runtime raises."""
    names, inputs, feeds = [], [], {}
    for i, array in enumerate(arrays):
        names.append("" if array is None else f"x{i}")
        if array is not None:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(names[-1], kind, array.shape))
            feeds[names[-1]] = np.ascontiguousarray(array).reshape(array.shape)
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, **attrs)
    typed = [helper.make_empty_tensor_value_info(r) for r in results]
    graph = helper.make_graph([node], "one", inputs, typed)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    for value in model.graph.output:
        assert value.type.tensor_type.elem_type != TensorProto.UNDEFINED
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))
