"""Models of bytes as ONNX: the values of the source in ONNX's reference evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator

import cuvil
from tests.frontends.onnx_models import FLOAT, model, node
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


def _same_as_source(source: ModelProto, x: Array, place: Path) -> None:
    cuvil.compile(source, target="onnx").save(place)
    expected = ReferenceEvaluator(source).run(None, {"x": x})
    for got, want in zip(run_file(place, {"x": x}), expected, strict=True):
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
    _same_as_source(source, x, tmp_path / "y.onnx")
