"""Models of bytes as ONNX: the values of the source in ONNX's reference evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

import cuvil
from tests.frontends.onnx_models import FLOAT, model, node, retyped
from tests.ops.values import Array
from tests.targets.onnx_calls import run_file

CONSTANTS = {
    "scale": np.float32(0.05), "zero": np.uint8(128),
    "gain": np.linspace(0.5, 2, 10, dtype=np.float32),
}  # fmt: skip
COMPOSITES = {
    "softmax": node("Softmax", ["d"], ["y"]),
    "log_softmax": node("LogSoftmax", ["d"], ["y"]),
    "layer_norm": node("LayerNormalization", ["d", "gain"], ["y"]),
    "lp_norm": node("LpNormalization", ["d"], ["y"]),
}


def _same_as_source(source: ModelProto, place: Path, **feeds: Array) -> None:
    cuvil.compile(source, target="onnx").save(place)
    expected = ReferenceEvaluator(source).run(None, feeds)
    for got, want in zip(run_file(place, feeds), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", COMPOSITES)
def test_bytes_go_into_composites(name: str, tmp_path: Path) -> None:
    nodes: list[NodeProto] = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        COMPOSITES[name],
    ]
    source = model(nodes, {"x": (FLOAT, ["n", 10])}, ["y"], CONSTANTS, 21, ir=10)
    x = np.random.default_rng(5).normal(size=(3, 10)).astype(np.float32)
    _same_as_source(source, tmp_path / "y.onnx", x=x)


def test_bytes_that_are_convolved_with_given_weights(tmp_path: Path) -> None:
    shapes = {"x": [1, 3, 5, 5], "w": [2, 3, 3, 3]}
    convolve = node("ConvInteger", ["x", "w"], ["y"], pads=[1, 0, 1, 2])
    inputs = {name: (TensorProto.UINT8, shape) for name, shape in shapes.items()}
    source = retyped(model([convolve], inputs, ["y"]), TensorProto.INT32)
    rng = np.random.default_rng(5)
    feeds = {name: rng.integers(0, 256, shape, np.uint8) for name, shape in shapes.items()}
    _same_as_source(source, tmp_path / "y.onnx", **feeds)
