"""Operators by version and by shape, against onnxruntime; symbolic shapes at several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from cuvil.errors import InvalidModelError, ShapeConstraintError, UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, check, floats, model, node, one, retyped

I64 = np.int64


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
    symbolic = one(op, ("a", "b", 4), opset, constants, **attrs)
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
    proto = one(
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


def test_axes_of_a_number_that_data_decides_are_refused() -> None:
    proto = model(
        [node("Squeeze", ["x", "axes"], ["y"])],
        {"x": (FLOAT, (1, 1)), "axes": (INT64, ("k",))},
        ["y"],
    )
    with pytest.raises(UnsupportedOpError, match="how many elements the axes has is symbolic"):
        capture_onnx(proto)


def test_reshape_that_data_decides_may_be_fixed() -> None:
    proto = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        {"x": (FLOAT, (6,)), "shape": (INT64, (2,))},
        ["y"],
    )
    assert str(capture_onnx(proto).main.outputs[0].type.shape[0]) == "reshape_0"
    module = capture_onnx(proto, fixed_inputs={"shape": np.array([2, 3], I64)})
    assert module.main.outputs[0].type.shape == (2, 3)
    with pytest.raises(InvalidModelError, match="its fixed value int32"):
        capture_onnx(proto, fixed_inputs={"shape": np.array([2, 3], np.int32)})


def test_reshape_allowzero_and_minusone() -> None:
    zero = one("Reshape", (0, 3), 14, {"s": np.array([3, 0], I64)}, allowzero=1)
    assert capture_onnx(zero).main.outputs[0].type.shape == (3, 0)
    with pytest.raises(InvalidModelError, match="more than one -1"):
        capture_onnx(one("Reshape", (6,), 14, {"s": np.array([-1, -1], I64)}))
    with pytest.raises(InvalidModelError, match="don't divide"):
        capture_onnx(one("Reshape", (7,), 14, {"s": np.array([2, -1], I64)}))


def test_symbolic_reshape_adds_the_constraint_it_needs() -> None:
    module = capture_onnx(one("Reshape", ("n",), 14, {"s": np.array([4, -1], I64)}))
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


@pytest.mark.parametrize(("index", "least"), [(3, 4), ([-1, 2], 3), ([1, -5], 5)])
def test_a_constant_index_says_how_long_an_axis_is_at_least(index: Any, least: int) -> None:
    picked = one("Gather", ("n",), 13, {"i": np.array(index, I64)})
    module = check(picked, {"x": floats(least)}, {"x": floats(9)})
    with pytest.raises(ShapeConstraintError, match=f"n >= {least}"):
        run_module(module, {"x": floats(least - 1)})


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


def test_folded_integer_arithmetic_keeps_its_sign_rules() -> None:
    """Constants of shape arithmetic fold as the operators are defined, not as floors."""
    nodes = [
        node("Mod", ["a", "b"], ["m"], fmod=1),
        node("Div", ["a", "b"], ["d"]),
        node("Mod", ["a", "b"], ["f"]),
    ]
    constants = {"a": np.array([-7, 7], I64), "b": np.array([3, -3], I64)}
    check(retyped(model(nodes, {}, ["m", "d", "f"], constants), INT64, INT64, INT64), {})


def test_division_of_a_size_that_may_be_negative_becomes_a_constraint() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Sub", ["s", "four"], ["less"]),
        node("Div", ["less", "two"], ["half"]),
        node("Add", ["half", "two"], ["size"]),
        node("ConstantOfShape", ["size"], ["y"]),
    ]
    constants = {"four": np.array([4], I64), "two": np.array([2], I64)}
    module = check(model(nodes, {"x": (FLOAT, ("n",))}, ["y"], constants), {"x": floats(9)})
    with pytest.raises(ShapeConstraintError, match="n"):
        run_module(module, {"x": floats(3)})


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses_refuse_targets_and_weights_of_other_sizes(op: str) -> None:
    loss = node(op, ["x", "t", "w"], ["y"], reduction="none")
    x, t = np.zeros((2, 3, 4), np.float32), np.zeros((2, 4), I64)

    def proto(*sizes: Any) -> Any:
        types = {"x": (FLOAT, sizes[:3]), "t": (INT64, sizes[3:5]), "w": (FLOAT, sizes[5:])}
        return model([loss], types, ["y"], opset=13)

    for sizes, said in (
        ((2, 3, 4, 1, 4, 3), "dimension 0 of the targets"),
        ((2, 3, 4, 2, 3, 3), "dimension 1 of the targets"),
        ((2, 3, 4, 2, 4, 4), "one weight a class"),
    ):
        with pytest.raises(InvalidModelError, match=said):
            capture_onnx(proto(*sizes))
    module = capture_onnx(proto("n", "c", "d", "m", "e", "k"))
    for targets, weights in ((t[:1], 3), (t[:, :3], 3), (t, 4)):
        feed = {"x": x, "t": targets, "w": np.ones(weights, np.float32)}
        with pytest.raises(ShapeConstraintError):
            run_module(module, feed)
