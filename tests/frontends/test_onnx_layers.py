"""Convolution, pooling, recurrence, resampling and quantisation, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, check, floats, model, node, one, retyped


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_automatic_padding_of_symbolic_sizes(op: str, auto: str, stride: int) -> None:
    attrs: dict[str, Any] = {"auto_pad": auto, "strides": [stride, stride]}
    constants = {"w": floats(3, 2, 3, 4)} if op == "Conv" else {}
    if op != "Conv":
        attrs["kernel_shape"] = [3, 4]
    proto = one(op, ("n", 2, "h", "w_"), 17, constants, **attrs)
    check(proto, *({"x": floats(1, 2, h, w)} for h, w in ((7, 8), (8, 9), (9, 4), (4, 11))))


def test_max_pool_indices() -> None:
    for order in (0, 1):
        proto = model(
            [node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], storage_order=order)],
            {"x": (FLOAT, ("n", 2, "h", "w"))},
            ["y", "i"],
        )
        check(retyped(proto, FLOAT, INT64), {"x": floats(2, 2, 4, 5)}, {"x": floats(1, 2, 3, 3)})


@pytest.mark.parametrize(
    "attrs",
    [
        {"pads": [1, 0, 0, 1], "strides": [2, 2], "output_padding": [1, 1]},
        {"output_shape": [9, 11], "strides": [2, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"group": 2, "dilations": [2, 1]},
    ],
)
def test_conv_transpose(attrs: dict[str, Any]) -> None:
    proto = one("ConvTranspose", (1, 2, 4, 5), 11, {"w": floats(2, 3, 3, 3)}, **attrs)
    check(proto, {"x": floats(1, 2, 4, 5)})


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers(op: str, direction: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    d = 2 if direction == "bidirectional" else 1
    constants = {
        "w": floats(d, gates * 5, 3, seed=1), "r": floats(d, gates * 5, 5, seed=2),
        "b": floats(d, gates * 10, seed=3), "l": np.array([4, 2], np.int32),
        "h": floats(d, 2, 5, seed=4),
    }  # fmt: skip
    outputs = ["y", "yh", "yc"] if op == "LSTM" else ["y", "yh"]
    proto = model(
        [node(op, ["x", *constants], outputs, hidden_size=5, direction=direction)],
        {"x": (FLOAT, ("t", 2, 3))}, outputs, constants,
    )  # fmt: skip
    check(proto, {"x": floats(4, 2, 3)}, {"x": floats(6, 2, 3)})


@pytest.mark.parametrize(
    ("mode", "coordinate"),
    [
        ("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"),
        ("cubic", "half_pixel"), ("linear", "pytorch_half_pixel"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("scale", [2.0, 1.5, 0.5])
def test_resize_by_scales_of_symbolic_sizes(mode: str, coordinate: str, scale: float) -> None:
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinate}
    proto = model(
        [node("Resize", ["x", "", "s"], ["y"], **attrs)],
        {"x": (FLOAT, (1, 2, "h", "w"))}, ["y"], {"s": np.array([1, 1, scale, scale], np.float32)},
    )  # fmt: skip
    check(proto, {"x": floats(1, 2, 4, 6)}, {"x": floats(1, 2, 8, 2)}, tolerance=1e-4)


@pytest.mark.parametrize("scale", [2.0, 0.6])
def test_resize_of_opset_10(scale: float) -> None:
    proto = one("Resize", (1, 1, 5, 7), 10, {"s": np.array([1, 1, scale, 2], np.float32)})
    check(proto, {"x": floats(1, 1, 5, 7)})


def test_quantised_operators() -> None:
    rng = np.random.default_rng(0)
    constants = {
        "xs": np.float32(0.1), "xz": np.uint8(12), "w": rng.integers(-9, 9, (3, 2, 3, 3), np.int8),
        "ws": np.array([0.1, 0.2, 0.3], np.float32), "wz": np.zeros(3, np.int8),
        "ys": np.float32(0.4), "yz": np.uint8(100), "b": np.array([5, -6, 7], np.int32),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        node("QLinearConv", ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["c"]),
        node("DequantizeLinear", ["c", "ys", "yz"], ["y"]),
        node("DynamicQuantizeLinear", ["x"], ["d", "ds", "dz"]),
    ]
    proto = model(
        nodes, {"x": (FLOAT, (1, 2, "h", 6))}, ["q", "c", "y", "d", "ds", "dz"], constants
    )
    u8 = TensorProto.UINT8
    check(retyped(proto, u8, u8, FLOAT, u8, FLOAT, u8), {"x": floats(1, 2, 5, 6)})


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("masked", ["", "bool", "float"])
def test_attention_is_one_operator(flat: bool, masked: str) -> None:
    """Grouped heads, a causal mask on top of a given one, a query row that sees no key."""
    shapes: dict[str, Any] = {"q": ("b", 4, "s", 6), "k": ("b", 2, "s", 6), "v": ("b", 2, "s", 3)}
    attrs: dict[str, Any] = {"is_causal": 1, "scale": 0.3}
    if flat:
        shapes = {"q": ("b", "s", 24), "k": ("b", "s", 12), "v": ("b", "s", 6)}
        attrs |= {"q_num_heads": 4, "kv_num_heads": 2}
    inputs = {k: (FLOAT, s) for k, s in shapes.items()}
    if masked:
        inputs["mask"] = (TensorProto.BOOL if masked == "bool" else FLOAT, ("s", "s"))
    proto = model([node("Attention", list(inputs), ["y"], **attrs)], inputs, ["y"], opset=23, ir=10)
    module = capture_onnx(proto)
    assert [op.short for op in module.main.walk()].count("attention") == 1
    for b, s in ((1, 1), (2, 5)):
        sizes = {"b": b, "s": s}
        arrays = {
            k: floats(*(sizes.get(d, d) for d in shape), seed=i)
            for i, (k, (_, shape)) in enumerate(inputs.items())
        }
        if masked == "bool":
            arrays["mask"] = arrays["mask"] > 0
            arrays["mask"][-1] = False
        (want,) = ReferenceEvaluator(proto).run(None, arrays)
        (got,) = run_module(module, arrays)
        np.testing.assert_allclose(got, np.nan_to_num(want), rtol=1e-5, atol=1e-6)


def test_attention_that_caches_keys_is_written_out() -> None:
    shapes = {"q": (1, 2, 3, 4), "k": (1, 2, 3, 4), "v": (1, 2, 3, 4),
              "pk": (1, 2, 5, 4), "pv": (1, 2, 5, 4)}  # fmt: skip
    names = ["q", "k", "v", "", "pk", "pv"]
    proto = model(
        [node("Attention", names, ["y", "nk", "nv"])],
        {k: (FLOAT, s) for k, s in shapes.items()}, ["y", "nk", "nv"], opset=23, ir=10,
    )  # fmt: skip
    arrays = {k: floats(*s, seed=i) for i, (k, s) in enumerate(shapes.items())}
    got = run_module(capture_onnx(proto), arrays)
    for a, b in zip(got, ReferenceEvaluator(proto).run(None, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
