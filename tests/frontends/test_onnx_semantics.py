"""Operators by version and by shape, against onnxruntime; symbolic shapes at several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from cuvil.errors import InvalidModelError, ShapeConstraintError, UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, check, floats, model, node, retyped

I64 = np.int64


def _one(op: str, shape: Any, opset: int, constants: Any = None, **attrs: Any) -> Any:
    """A model of one operator over x and constants."""
    names = ["x", *(constants or {})]
    return model([node(op, names, ["y"], **attrs)], {"x": (FLOAT, shape)}, ["y"], constants, opset)


@pytest.mark.parametrize(
    ("op", "opset", "constants", "attrs"),
    [
        ("Softmax", 7, {}, {"axis": 1}),
        ("Softmax", 12, {}, {}),
        ("Softmax", 13, {}, {"axis": 1}),
        ("LogSoftmax", 11, {}, {"axis": 0}),
        ("Hardmax", 11, {}, {"axis": 1}),
        ("Hardmax", 13, {}, {"axis": 1}),
        ("Unsqueeze", 11, {}, {"axes": [0, 4]}),
        ("Unsqueeze", 13, {"a": np.array([-1, 0], I64)}, {}),
        ("ReduceSum", 11, {}, {"axes": [1], "keepdims": 0}),
        ("ReduceSum", 13, {"a": np.array([-1], I64)}, {}),
        ("ReduceSum", 13, {"a": np.array([], I64)}, {"noop_with_empty_axes": 1}),
        ("ReduceMax", 17, {}, {"axes": [0, 2]}),
        ("ReduceMax", 18, {"a": np.array([0, 2], I64)}, {}),
        ("ReduceLogSumExp", 17, {}, {"axes": [1]}),
        ("ReduceL2", 17, {}, {"axes": [-1], "keepdims": 0}),
        ("Clip", 7, {}, {"min": -0.5, "max": 0.5}),
        ("Clip", 13, {"lo": np.float32(0.5), "hi": np.float32(-0.5)}, {}),
        ("Pad", 7, {}, {"pads": [0, 1, 0, 0, 0, 2], "value": 1.5}),
        ("Pad", 13, {"p": np.array([0, 1, 0, 0, -1, 2], I64), "v": np.float32(2)}, {}),
        ("Pad", 13, {"p": np.array([0, 1, 0, 0, 1, 2], I64)}, {"mode": "reflect"}),
        ("Pad", 13, {"p": np.array([1, 0, 0, 1, 0, 0], I64)}, {"mode": "edge"}),
        ("Slice", 7, {}, {"starts": [1, -3], "ends": [9, -1], "axes": [1, 2]}),
        ("Slice", 13, {
            "s": np.array([-1, 3], I64), "e": np.array([-(1 << 62), 0], I64),
            "a": np.array([1, 2], I64), "t": np.array([-1, -2], I64)}, {}),
        ("TopK", 11, {"k": np.array([2], I64)}, {"axis": 1}),
        ("Dropout", 7, {}, {}),
        ("Upsample", 7, {}, {"scales": [1.0, 2.0, 1.0]}),
        ("Upsample", 9, {"s": np.array([1, 2, 1], np.float32)}, {}),
        ("Cast", 13, {}, {"to": TensorProto.FLOAT}),
        ("Elu", 7, {}, {"alpha": 0.5}),
        ("Selu", 7, {}, {}),
        ("Celu", 12, {}, {"alpha": 0.7}),
        ("ThresholdedRelu", 10, {}, {"alpha": 0.3}),
        ("HardSwish", 14, {}, {}),
        ("Mish", 18, {}, {}),
        ("Gelu", 20, {}, {"approximate": "tanh"}),
        ("Shrink", 9, {}, {"lambd": 0.4, "bias": 0.1}),
        ("LpNormalization", 7, {}, {"axis": 1, "p": 1}),
        ("Flatten", 13, {}, {"axis": -1}),
        ("Trilu", 14, {"k": np.array(-1, I64)}, {"upper": 0}),
        ("Gather", 13, {"i": np.array([[-1, 0]], I64)}, {"axis": 2}),
        ("CumSum", 14, {"a": np.array(1, I64)}, {"reverse": 1, "exclusive": 1}),
        ("Tile", 13, {"r": np.array([2, 1, 3], I64)}, {}),
        ("Expand", 13, {"s": np.array([2, 1, 1, 1], I64)}, {}),
        ("LayerNormalization", 17, {"w": floats(4)}, {"axis": -1}),
    ],
)  # fmt: skip
def test_versions(op: str, opset: int, constants: Any, attrs: Any) -> None:
    """The same operator, symbolic and static, at two sizes."""
    symbolic = _one(op, ("a", "b", 4), opset, constants, **attrs)
    if op == "TopK":
        symbolic = model(
            [node(op, ["x", "k"], ["y", "i"], **attrs)],
            {"x": (FLOAT, ("a", "b", 4))}, ["y", "i"], constants, opset,
        )  # fmt: skip
        symbolic = retyped(symbolic, FLOAT, INT64)
    static = type(symbolic)()
    static.CopyFrom(symbolic)
    for d, size in zip(static.graph.input[0].type.tensor_type.shape.dim, (2, 3, 4)):
        d.dim_value = size
    check(static, {"x": floats(2, 3, 4)})
    check(symbolic, {"x": floats(2, 3, 4)}, {"x": floats(3, 5, 4, seed=1)})


def test_old_broadcasting_places_b_at_an_axis() -> None:
    proto = model(
        [node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)],
        {"x": (FLOAT, (2, 3, 4))}, ["y"], {"b": floats(3)}, opset=6,
    )  # fmt: skip
    x = floats(2, 3, 4)
    (y,) = run_module(capture_onnx(proto), {"x": x})
    np.testing.assert_allclose(y, x + floats(3)[:, None])


@pytest.mark.parametrize(
    ("op", "a", "b", "kind", "attrs"),
    [
        ("Div", [-7, 7, -7, 7], [2, -2, -2, 2], np.int32, {}),
        ("Mod", [-7, 7, -7, 7], [3, -3, -3, 3], np.int32, {}),
        ("Mod", [-7, 7, -7, 7], [3, -3, -3, 3], np.int64, {"fmod": 1}),
        ("Mod", [-7.5, 7.5], [2.0, -2.0], np.float32, {"fmod": 1}),
        ("Pow", [2, 3, -2], [3, 2, 3], np.int64, {}),
        ("BitShift", [1, 255], [7, 3], np.uint8, {"direction": "LEFT"}),
        ("BitShift", [200, 255], [3, 7], np.uint8, {"direction": "RIGHT"}),
        ("Max", [np.nan, 1.0], [0.0, 2.0], np.float32, {}),
    ],
)
def test_integer_semantics(op: str, a: Any, b: Any, kind: Any, attrs: Any) -> None:
    x, z = np.array(a, kind), np.array(b, kind)
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    proto = model(
        [node(op, ["x", "z"], ["y"], **attrs)],
        {"x": (code, x.shape), "z": (code, z.shape)},
        ["y"],
    )
    check(retyped(proto, code), {"x": x, "z": z})


def test_power_with_an_exponent_of_another_type() -> None:
    for base, exponent in (("float32", "int64"), ("int32", "float32"), ("int64", "int32")):
        x, z = np.array([2, 3, 4], base), np.array([2, 0, 1], exponent)
        kinds = [helper.np_dtype_to_tensor_dtype(v.dtype) for v in (x, z)]
        proto = model(
            [node("Pow", ["x", "z"], ["y"])], {"x": (kinds[0], (3,)), "z": (kinds[1], (3,))}, ["y"]
        )
        check(retyped(proto, kinds[0]), {"x": x, "z": z})


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((3,), (5, 3, 2)), ((5, 2, 3), (3,)),
        ((2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 2)),
    ],
)  # fmt: skip
def test_matmul_shapes(a: Any, b: Any) -> None:
    proto = model([node("MatMul", ["x", "z"], ["y"])], {"x": (FLOAT, a), "z": (FLOAT, b)}, ["y"])
    check(proto, {"x": floats(*a), "z": floats(*b, seed=1)})


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("c", [(), (4,), (2, 1), (2, 4)])
def test_gemm(trans_a: int, trans_b: int, c: tuple[int, ...]) -> None:
    a, b = floats(3, 2) if trans_a else floats(2, 3), floats(4, 3) if trans_b else floats(3, 4)
    proto = _one(
        "Gemm", a.shape, 13, {"b": b, "c": np.asarray(floats(*c))},
        transA=trans_a, transB=trans_b, alpha=0.5, beta=2.0,
    )  # fmt: skip
    check(proto, {"x": a})


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("...ij,jk", [(5, 2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->ji", [(2, 3)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("b...,b...->b...", [(2, 3, 1), (2, 1, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    proto = model(
        [node("Einsum", names, ["y"], equation=equation)],
        {k: (FLOAT, s) for k, s in zip(names, shapes)},
        ["y"],
    )
    arrays = {k: floats(*s, seed=i) for i, (k, s) in enumerate(zip(names, shapes))}
    (got,) = run_module(capture_onnx(proto), arrays)
    np.testing.assert_allclose(got, np.einsum(equation, *arrays.values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_automatic_padding_of_symbolic_sizes(op: str, auto: str, stride: int) -> None:
    attrs: dict[str, Any] = {"auto_pad": auto, "strides": [stride, stride]}
    constants = {"w": floats(3, 2, 3, 4)} if op == "Conv" else {}
    if op != "Conv":
        attrs["kernel_shape"] = [3, 4]
    proto = _one(op, ("n", 2, "h", "w_"), 17, constants, **attrs)
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
    proto = _one("ConvTranspose", (1, 2, 4, 5), 11, {"w": floats(2, 3, 3, 3)}, **attrs)
    check(proto, {"x": floats(1, 2, 4, 5)})


def _shape_model(nodes: Any, constants: Any, outputs: Any = ("y",)) -> Any:
    return model(nodes, {"x": (FLOAT, ("n", "s", 6))}, list(outputs), constants)


def test_shape_computations_become_dims() -> None:
    """[n, s, 6] to [n, s, 2, 3] the way exporters write it, then back with -1 and 0."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"]),
        node("Gather", ["shape", "one"], ["s"]),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Unsqueeze", ["s", "axis"], ["s1"]),
        node("Concat", ["n1", "s1", "tail"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "back"], ["y"]),
        node("Equal", ["target", "minus"], ["is_minus"]),
        node("Where", ["is_minus", "ones", "target"], ["expanded"]),
        node("Expand", ["unit", "expanded"], ["z"]),
        node("Mul", ["n", "s"], ["count"]),
        node("Range", ["zero", "count", "one"], ["line"]),
    ]
    constants = {
        "zero": np.array(0, I64), "one": np.array(1, I64), "axis": np.array([0], I64),
        "tail": np.array([2, 3], I64), "back": np.array([0, 2, -1], I64),
        "minus": np.array([-1], I64), "ones": np.array([1, 1, 1, 1], I64),
        "unit": np.ones((1, 1, 1, 1), np.float32),
    }  # fmt: skip
    proto = retyped(_shape_model(nodes, constants, ("y", "z", "line")), FLOAT, FLOAT, INT64)
    module = check(proto, {"x": floats(2, 3, 6)}, {"x": floats(1, 5, 6)})
    assert [str(d) for d in module.main.outputs[0].type.shape] == ["n", "2", "3 * s"]
    assert [str(d) for d in module.main.outputs[2].type.shape] == ["n * s"]
    assert module.main.constraints == []


def test_shape_computations_through_floats() -> None:
    """floor(s * 0.5) and ceil(s / 2) as exporters compute sizes; resize by size / size."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "one", "two"], ["s"]),
        node("Cast", ["s"], ["f"], to=FLOAT),
        node("Mul", ["f", "half"], ["h"]),
        node("Floor", ["h"], ["fl"]),
        node("Cast", ["fl"], ["low"], to=INT64),
        node("Ceil", ["h"], ["ce"]),
        node("Cast", ["ce"], ["high"], to=INT64),
        node("Slice", ["x", "zero", "low", "one"], ["a"]),
        node("Slice", ["x", "zero", "high", "one"], ["b"]),
    ]
    constants = {
        "zero": np.array([0], I64), "one": np.array([1], I64), "two": np.array([2], I64),
        "half": np.array([0.5], np.float32),
    }  # fmt: skip
    proto = _shape_model(nodes, constants, ("a", "b"))
    module = check(proto, *({"x": floats(2, s, 6)} for s in (4, 5, 1)))
    sizes = [str(v.type.shape[1]) for v in module.main.outputs]
    assert sizes[0] == "s // 2"


def test_reshape_that_data_decides_is_refused() -> None:
    proto = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        {"x": (FLOAT, (6,)), "shape": (INT64, (2,))},
        ["y"],
    )
    with pytest.raises(UnsupportedOpError, match="target shape depends on the data of an input"):
        capture_onnx(proto)
    module = capture_onnx(proto, fixed_inputs={"shape": np.array([2, 3], I64)})
    assert module.main.outputs[0].type.shape == (2, 3)
    with pytest.raises(InvalidModelError, match="its fixed value int32"):
        capture_onnx(proto, fixed_inputs={"shape": np.array([2, 3], np.int32)})


def test_reshape_allowzero_and_minus_one() -> None:
    zero = _one("Reshape", (0, 3), 14, {"s": np.array([3, 0], I64)}, allowzero=1)
    assert capture_onnx(zero).main.outputs[0].type.shape == (3, 0)
    with pytest.raises(InvalidModelError, match="more than one -1"):
        capture_onnx(_one("Reshape", (6,), 14, {"s": np.array([-1, -1], I64)}))
    with pytest.raises(InvalidModelError, match="don't divide"):
        capture_onnx(_one("Reshape", (7,), 14, {"s": np.array([2, -1], I64)}))


def test_symbolic_reshape_adds_the_constraint_it_needs() -> None:
    module = capture_onnx(_one("Reshape", ("n",), 14, {"s": np.array([4, -1], I64)}))
    run_module(module, {"x": floats(8)})
    with pytest.raises(ShapeConstraintError):
        run_module(module, {"x": floats(7)})


def test_slice_ends_of_unknown_sign_become_constraints() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "one", "two"], ["s"]),
        node("Sub", ["s", "four"], ["end"]),
        node("Slice", ["x", "zero", "end", "one"], ["y"]),
    ]
    constants = {
        "zero": np.array([0], I64), "one": np.array([1], I64), "two": np.array([2], I64),
        "four": np.array([4], I64),
    }  # fmt: skip
    module = check(_shape_model(nodes, constants), {"x": floats(1, 6, 6)}, {"x": floats(1, 4, 6)})
    with pytest.raises(ShapeConstraintError):
        run_module(module, {"x": floats(1, 3, 6)})


def test_split_sizes() -> None:
    even = model(
        [node("Split", ["x"], ["a", "b"], axis=0)], {"x": (FLOAT, ("n", 3))}, ["a", "b"], opset=13
    )
    check(even, {"x": floats(4, 3)})
    uneven = model(
        [node("Split", ["x"], ["a", "b", "c"], axis=0, num_outputs=3)],
        {"x": (FLOAT, (7, 3))}, ["a", "b", "c"], opset=18,
    )  # fmt: skip
    check(uneven, {"x": floats(7, 3)})


def _branch(name: str, op: str) -> Any:
    out = helper.make_tensor_value_info("r", FLOAT, None)
    return helper.make_graph([node(op, ["x"], ["r"])], name, [], [out])


def test_if_takes_the_known_branch() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Size", ["shape"], ["rank"]),
        node("Equal", ["rank", "three"], ["is3"]),
        node("Not", ["is3"], ["isnt"]),
        node(
            "If", ["isnt"], ["y"], then_branch=_branch("t", "Exp"), else_branch=_branch("e", "Neg")
        ),
    ]
    module = check(_shape_model(nodes, {"three": np.array(3, I64)}), {"x": floats(1, 2, 6)})
    assert "neg" in [op.short for op in module.main.walk()]
    data = model(
        [
            node(
                "If", ["c"], ["y"], then_branch=_branch("t", "Exp"), else_branch=_branch("e", "Neg")
            )
        ],
        {"c": (TensorProto.BOOL, ()), "x": (FLOAT, (2,))},
        ["y"],
    )
    with pytest.raises(UnsupportedOpError, match="condition is not known"):
        capture_onnx(data)


def test_loop_of_known_length_is_written_out() -> None:
    def info(name: str, kind: int, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    body = helper.make_graph(
        [
            node("Identity", ["c"], ["c2"]),
            node("Cast", ["i"], ["f"], to=FLOAT),
            node("Add", ["s", "f"], ["s2"]),
            node("Mul", ["s2", "x"], ["row"]),
        ],
        "body",
        [info("i", INT64, ()), info("c", TensorProto.BOOL, ()), info("s", FLOAT, (3,))],
        [info("c2", TensorProto.BOOL, ()), info("s2", FLOAT, (3,)), info("row", FLOAT, (3,))],
    )
    proto = model(
        [node("Loop", ["trips", "", "x"], ["last", "rows"], body=body)],
        {"x": (FLOAT, (3,))},
        ["last", "rows"],
        {"trips": np.array(4, I64)},
    )
    check(proto, {"x": floats(3)})


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
    proto = _one("Resize", (1, 1, 5, 7), 10, {"s": np.array([1, 1, scale, 2], np.float32)})
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


def test_sequences_are_taken_apart() -> None:
    nodes = [
        node("SplitToSequence", ["x", "two"], ["s"], axis=1),
        node("SequenceLength", ["s"], ["n"]),
        node("SequenceAt", ["s", "minus"], ["last"]),
        node("SequenceInsert", ["s", "last", "zero"], ["t"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=1),
        node("Identity", ["s"], ["parts"]),
    ]
    constants = {"two": np.array(2, I64), "minus": np.array(-1, I64), "zero": np.array(0, I64)}
    proto = model(nodes, {"x": (FLOAT, (2, 5))}, ["n", "y"], constants)
    check(retyped(proto, INT64, FLOAT), {"x": floats(2, 5)})
    proto.graph.output.append(helper.make_tensor_sequence_value_info("parts", FLOAT, None))
    module = capture_onnx(proto)
    assert module.main.output_names == ["n", "y", "parts_0", "parts_1", "parts_2"]
    assert [v.type.shape[1] for v in module.main.outputs[2:]] == [2, 2, 1]


def test_a_big_constant_of_shape_is_stored_only_when_it_is_not_huge() -> None:
    def fill(*shape: int) -> Any:
        proto = model(
            [node("ConstantOfShape", ["s"], ["y"])], {}, ["y"], {"s": np.array(shape, I64)}
        )
        return capture_onnx(proto).main.outputs[0]

    assert fill(64, 64).op.short == "constant"
    huge = fill(1 << 20, 1 << 20)
    assert huge.op.short == "broadcast"
    assert huge.op.operands[0].type.shape == ()


def test_locations_name_the_source_nodes() -> None:
    proto = model(
        [node("Relu", ["x"], ["a"], name="act"), node("Neg", ["a"], ["y"])],
        {"x": (FLOAT, (3,))},
        ["y"],
    )
    places = {str(op.loc) for op in capture_onnx(proto).main.walk()}
    assert {"act (Relu)", "Neg_1 (Neg)"} <= places
