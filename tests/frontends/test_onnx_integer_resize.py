"""Resize of integers, against ONNX's reference evaluator in f64, rounded and kept in range."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import cuvil
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module

Array = np.ndarray[Any, Any]
WAYS = list(itertools.product(
    ("linear", "cubic"), ("half_pixel", "align_corners"), ((7, 9), (3, 2)), (0, 1)
))  # fmt: skip


def _model(dtype: Any, ways: Any = WAYS) -> onnx.ModelProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes, outputs, constants = [], [], []
    for at, (mode, coordinate, sizes, antialias) in enumerate(ways):
        nodes.append(helper.make_node(
            "Resize", ["x", "", "", f"s{at}"], [f"y{at}"], mode=mode, antialias=antialias,
            coordinate_transformation_mode=coordinate,
        ))  # fmt: skip
        constants.append(numpy_helper.from_array(np.array([1, 1, *sizes], np.int64), f"s{at}"))
        outputs.append(helper.make_tensor_value_info(f"y{at}", code, None))
    inputs = [helper.make_tensor_value_info("x", code, (1, 1, 6, 5))]
    graph = helper.make_graph(nodes, "resize", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def _image(dtype: Any) -> Array:
    ends = np.iinfo(dtype)
    low, high = max(ends.min, -(10**6)), min(ends.max, 10**6)
    x = np.random.default_rng(2).integers(low, high, (1, 1, 6, 5), np.int64, endpoint=True)
    return x.astype(dtype)


def _wanted(x: Array, ways: Any = WAYS) -> list[Array]:
    """Rounded; next to a half, where the evaluator's f32 weights may go either way, as the half."""
    found = ReferenceEvaluator(_model(np.float64, ways)).run(None, {"x": x.astype(np.float64)})
    ends = np.iinfo(x.dtype)
    near = [np.round(y * 2**10) / 2**10 for y in found]
    return [np.clip(np.rint(y), ends.min, ends.max).astype(x.dtype) for y in near]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64"])
def test_are_rounded(dtype: str) -> None:
    x = _image(dtype)
    got = run_module(capture_onnx(_model(dtype)), {"x": x})
    for way, have, want in zip(WAYS, got, _wanted(x), strict=True):
        assert have.dtype == want.dtype
        exact = way[0] == "linear" or x.dtype.itemsize == 1  # else the evaluator's error shows
        away = np.abs(have.astype(np.float64) - want.astype(np.float64)).max()
        assert away <= (0 if exact else 3), way


def test_compiled_code_rounds_alike() -> None:
    ways = [WAYS[0], WAYS[9]]
    x = _image("uint8")
    with cuvil.compile(_model("uint8", ways), verify=True) as artifact:
        for at, want in enumerate(_wanted(x, ways)):
            np.testing.assert_array_equal(artifact.run({"x": x})[f"y{at}"], want, strict=True)
