"""Small ONNX models, and the comparison of a captured module with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from cuvil.api.manifest import signature_of
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from cuvil.runtime.host import HostPlan

Array = np.ndarray[Any, Any]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> NodeProto:
    """A node; ``name`` may be among the attributes."""
    return helper.make_node(op, inputs, outputs, **attrs)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[Any]]],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = 17,
    **more: Any,
) -> ModelProto:
    """A model; inputs are (element type, shape), outputs are declared without a type."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(k, t, shape) for k, (t, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *more.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=more.pop("ir", 8), **more)


def one(op: str, shape: Any, opset: int, constants: Any = None, **attrs: Any) -> Any:
    """A model of one operator over x and constants."""
    names = ["x", *(constants or {})]
    return model([node(op, names, ["y"], **attrs)], {"x": (FLOAT, shape)}, ["y"], constants, opset)


def retyped(proto: ModelProto, *types: int) -> ModelProto:
    """The model with its outputs declared of these element types."""
    for value, kind in zip(proto.graph.output, types, strict=True):
        value.type.tensor_type.elem_type = kind
    return proto


def run_ort(proto: ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """onnxruntime's answer, without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return list(session.run(None, dict(inputs)))


def run_captured(module: Module, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs in order: numbers by the reference, strings by the captured host steps."""
    tree = module.call.get("host")
    if tree is None:
        return run_module(module, inputs)
    names = {spec["name"] for spec in tree["inputs"] if spec.get("dtype") == "str"}
    given = {k: np.asarray(v, dtype=object) if k in names else v for k, v in inputs.items()}
    plan = HostPlan.read(tree, signature_of(module.main))
    codes = plan.codes()
    found: dict[str, Array] = plan.run(given)
    numbers = run_module(module, plan.numbers(given, codes))
    library = dict(zip(module.main.output_names, numbers, strict=True))
    found.update({**library, **plan.decoded(library, codes)})
    return [found[spec.name] for spec in plan.outputs]


def check(
    proto: ModelProto,
    *calls: Mapping[str, Array],
    tolerance: float = 1e-5,
    **options: Any,
) -> Module:
    """Capture once, then compare every call with onnxruntime."""
    module = capture_onnx(proto, **options)
    for inputs in calls:
        got, want = run_module(module, inputs), run_ort(proto, inputs)
        compare(got, want, tolerance)
    return module


def compare(got: Sequence[Array], want: Sequence[Array], tolerance: float) -> None:
    """Same number, dtypes and shapes; values within the tolerance (absolute and relative).

    Strings may be of any of NumPy's string dtypes, and must be equal.
    """
    got, want = ([np.asarray(a, object) if a.dtype.kind == "U" else a for a in x]
                 for x in (got, want))  # fmt: skip
    assert [(a.dtype, a.shape) for a in got] == [(a.dtype, a.shape) for a in want]
    for a, b in zip(got, want, strict=True):
        if a.dtype == object:
            assert a.tolist() == b.tolist()
            continue
        if a.dtype.name == "bfloat16":
            a, b = a.astype(np.float32), b.astype(np.float32)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def floats(*shape: int, seed: int = 0) -> Array:
    """Normally distributed f32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
