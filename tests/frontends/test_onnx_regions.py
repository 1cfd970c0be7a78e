"""Operators on regions and matrices that the onnx package has few or no cases of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import cuvil
from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, check, floats, model, node

BOXES = np.array(
    [[0.6, 1.2, 5.3, 6.8], [-2, -1, 2.2, 3.1], [3, 3, 3.4, 3.2], [4, 4, 12, 11]], np.float32
)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("size", [[1, 1], [2, 3], [3, 2]])
def test_max_roi_pool(scale: float, size: list[int]) -> None:
    rois = np.concatenate([np.array([[0], [1], [1], [0]]), BOXES], 1).astype(np.float32)
    pool = node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=size, spatial_scale=scale)
    proto = model([pool], {"x": (FLOAT, ["n", 3, 9, 7]), "r": (FLOAT, ["k", 5])}, ["y"])
    check(proto, {"x": floats(2, 3, 9, 7), "r": rois})


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("ratio", [0, 3])
@pytest.mark.parametrize("attrs", [{}, {"mode": "max", "spatial_scale": 0.5}])
def test_roi_align(opset: int, ratio: int, attrs: Any) -> None:
    align = node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=3,
                 sampling_ratio=ratio, **attrs)  # fmt: skip
    inputs = {"x": (FLOAT, ["n", 3, 9, 7]), "r": (FLOAT, ["k", 4]), "b": (INT64, ["k"])}
    call = {"x": floats(2, 3, 9, 7), "r": BOXES, "b": np.array([0, 1, 1, 0])}
    check(model([align], inputs, ["y"], opset=opset), call, tolerance=1e-5)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_that_floats_hardly_resolve_come_to_an_end(mode: str) -> None:
    """Samples that lie 4 apart because f64 has no others between; widths beyond f64."""
    align = node("RoiAlign", ["x", "r", "b"], ["y"], mode=mode)
    types = {
        "x": (TensorProto.DOUBLE, [1, 1, 4, 5]),
        "r": (TensorProto.DOUBLE, ["k", 4]),
        "b": (INT64, ["k"]),
    }
    proto = model([align], types, ["y"], opset=16)
    ends = [[-2e16, 0, 2e16, 3], [0, -2e16, 3, 2e16], [-1.7e308, 0, 1.7e308, 3]]
    call = {"x": np.ones((1, 1, 4, 5)), "r": np.array(ends), "b": np.zeros(3, np.int64)}
    (wanted,) = run_module(capture_onnx(proto), call)
    with cuvil.compile(proto, verify=False, options={"opt_level": 0}) as artifact:
        found = artifact.run(call)["y"].ravel()
    for y in (wanted.ravel(), found):
        # A few samples of 1 among 4e16; the greatest is one of them.
        assert (y[:2] >= 0).all() and (y[:2] <= (1 if mode == "max" else 1e-14)).all()
        assert np.isnan(y[2])


def test_regions_of_images_that_are_not_there() -> None:
    align = node("RoiAlign", ["x", "r", "b"], ["y"])
    inputs = {"x": (FLOAT, [2, 1, 3, 3]), "r": (FLOAT, [1, 4]), "b": (INT64, [1])}
    module = capture_onnx(model([align], inputs, ["y"]))
    with pytest.raises(InvalidModelError, match="an image that is not one of 2"):
        run_module(module, {"x": floats(2, 1, 3, 3), "r": BOXES[:1], "b": np.array([2])})


@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 3), (2, 2, 6, 6), (0, 2, 2), (0, 0)])
def test_det(shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    proto = model([node("Det", ["x"], ["y"])], {"x": (FLOAT, shape)}, ["y"], opset=22)
    (found,) = run_module(capture_onnx(proto), {"x": x})
    np.testing.assert_allclose(found, np.linalg.det(x.astype(np.float64)), rtol=1e-5, atol=1e-6)
    assert found.dtype == np.float32


def test_det_of_exchanged_and_singular_rows() -> None:
    x = np.array([[[0, 1], [1, 0]], [[1, 2], [2, 4]], [[0, 0], [0, 1]]], np.float64)
    proto = model([node("Det", ["x"], ["y"])], {"x": (TensorProto.DOUBLE, (3, 2, 2))}, ["y"],
                  opset=11)  # fmt: skip
    assert run_module(capture_onnx(proto), {"x": x})[0].tolist() == [-1, 0, 0]


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(p: int) -> None:
    x = floats(2, 3, 4, 5)
    proto = model([node("GlobalLpPool", ["x"], ["y"], p=p)], {"x": (FLOAT, x.shape)}, ["y"])
    (found,) = run_module(capture_onnx(proto), {"x": x})
    want = (np.abs(x.astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)
    np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_an_unmoved_deformed_convolution_is_one(groups: int) -> None:
    """Offsets of 0 and a mask of 1; then whole offsets, which read other elements."""
    x, w = floats(2, 4, 6, 7), floats(6, 4 // groups, 3, 2, seed=1)
    attrs = {"pads": [1, 0, 1, 1], "strides": [2, 1], "dilations": [1, 2], "group": groups}
    plain = model([node("Conv", ["x", "w"], ["y"], **attrs)], {"x": (FLOAT, x.shape)}, ["y"],
                  {"w": w})  # fmt: skip
    (want,) = run_module(capture_onnx(plain), {"x": x})
    places = want.shape[2:]
    inputs = {"x": (FLOAT, x.shape), "o": (FLOAT, (2, 2 * 12, *places))}
    deform = node("DeformConv", ["x", "w", "o"], ["y"], offset_group=2, **attrs)
    module = capture_onnx(model([deform], inputs, ["y"], {"w": w}, opset=19))
    (found,) = run_module(module, {"x": x, "o": np.zeros((2, 24, *places), np.float32)})
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    far = np.full((2, 24, *places), 100, np.float32)
    assert not run_module(module, {"x": x, "o": far})[0].any()
