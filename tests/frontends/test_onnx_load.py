"""Model files that are bad, odd, or in parts: each is read rightly or refused with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cuvil.errors import (
    InputError,
    InvalidModelError,
    ShapeConstraintError,
    UnsupportedOpError,
)
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, check, floats, model, node


def _relu(shape: Any = (2, 3)) -> ModelProto:
    return model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, shape)}, ["y"])


def _refused(source: Any, match: str, **options: Any) -> None:
    with pytest.raises(InvalidModelError, match=match):
        capture_onnx(source, **options)


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9, 0.99])
def test_truncated_files(tmp_path: Path, cut: float) -> None:
    data = model(
        [node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, (64,))}, ["y"], {"w": floats(64)}
    ).SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(InvalidModelError):
        capture_onnx(path)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "holds no ONNX graph"),
        (b"PK\x03\x04 not a model", "not a complete ONNX model"),
        (b"\xff" * 100, "not a complete ONNX model"),
    ],
)
def test_no_model_at_all(data: bytes, match: str) -> None:
    _refused(data, match)


def test_missing_file(tmp_path: Path) -> None:
    _refused(tmp_path / "none.onnx", "cannot read")


def test_bytes_path_and_proto_are_one(tmp_path: Path) -> None:
    proto = _relu()
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    x = floats(2, 3)
    for source in (proto, proto.SerializeToString(), path, str(path)):
        (y,) = run_module(capture_onnx(source), {"x": x})
        np.testing.assert_array_equal(y, np.maximum(x, 0))


def _external(tmp_path: Path, location: str, offset: int | str = 0, length: int | str = 24) -> Path:
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, (2, 3))}, ["y"])
    tensor = proto.graph.initializer.add()
    tensor.name, tensor.data_type = "w", FLOAT
    tensor.dims.extend([2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    folder = tmp_path / "model"
    folder.mkdir()
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data_is_read_at_its_offset(tmp_path: Path) -> None:
    path = _external(tmp_path, "w.bin", 8)
    weight = floats(2, 3)
    (path.parent / "w.bin").write_bytes(b"\0" * 8 + weight.tobytes())
    x = floats(2, 3, seed=1)
    (y,) = run_module(capture_onnx(path), {"x": x})
    np.testing.assert_array_equal(y, x + weight)
    _refused(path.read_bytes(), "without a folder")


@pytest.mark.parametrize(
    ("location", "offset", "length", "match"),
    [
        ("../w.bin", 0, 24, "outside the model's folder"),
        ("sub/../../w.bin", 0, 24, "outside the model's folder"),
        ("/etc/hostname", 0, 24, "not a relative path"),
        ("", 0, 24, "not a relative path"),
        ("none.bin", 0, 24, "there is no file"),
        (".", 0, 24, "there is no file"),
        ("w.bin", 1, 24, "needs bytes 1 to 25"),
        ("w.bin", 10**15, 24, "which has 24"),
        ("w.bin", "-1", 24, "not an offset or length"),
        ("w.bin", 0, 20, "does not fit its shape"),
        ("link.bin", 0, 24, "outside the model's folder"),
    ],
)
def test_bad_external_data(
    tmp_path: Path, location: str, offset: Any, length: Any, match: str
) -> None:
    path = _external(tmp_path, location, offset, length)
    for folder in (tmp_path, path.parent):
        (folder / "w.bin").write_bytes(b"\0" * 24)
    (path.parent / "link.bin").symlink_to(tmp_path / "w.bin")
    _refused(path, match)


def test_a_huge_declared_tensor_is_refused_before_it_is_made(tmp_path: Path) -> None:
    path = _external(tmp_path, "w.bin")
    proto = onnx.load(path, load_external_data=False)
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend([1 << 40, 1 << 20])
    del proto.graph.initializer[0].external_data[2:]  # leaves the length to the dims
    path.write_bytes(proto.SerializeToString())
    (path.parent / "w.bin").write_bytes(b"\0" * 24)
    _refused(path, "needs bytes")


def _with_weight(**fields: Any) -> ModelProto:
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, (4,))}, ["y"])
    proto.graph.initializer.append(TensorProto(name="w", data_type=FLOAT, **fields))
    return proto


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"dims": [4], "raw_data": b"\0" * 15}, "needs 16 bytes, it has 15"),
        ({"dims": [4], "raw_data": b"\0" * 20}, "needs 16 bytes, it has 20"),
        ({"dims": [4], "float_data": [1.0]}, "needs 4 elements"),
        ({"dims": [-4], "raw_data": b""}, "negative dimension"),
        ({"dims": [1 << 40], "float_data": [1.0]}, "needs 1099511627776 elements"),
    ],
)
def test_tensors_that_contradict_themselves(fields: dict[str, Any], match: str) -> None:
    _refused(_with_weight(**fields), match)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "uint64", "bool"]
)
@pytest.mark.parametrize("raw", [True, False])
def test_stored_dtypes(dtype: str, raw: bool) -> None:
    array = np.array([[0, 1, 2], [3, 100, 127]]).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = helper.make_tensor("w", kind, array.shape, array.tobytes() if raw else array, raw=raw)
    proto = model([node("Identity", ["w"], ["y"])], {}, ["y"])
    proto.graph.initializer.append(tensor)
    (y,) = run_module(capture_onnx(proto), {})
    assert y.dtype == array.dtype
    np.testing.assert_array_equal(y, array)


def test_all_forms_of_constant() -> None:
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", FLOAT, [2], [5.0, 6.0]),
        helper.make_tensor("i", INT64, [2], [1, 3]),
        [4],
    )
    forms: dict[str, dict[str, Any]] = {
        "a": {"value_float": 1.5},
        "b": {"value_floats": [1.0, 2.0]},
        "c": {"value": numpy_helper.from_array(floats(2, 2))},
        "d": {"sparse_value": sparse},
        "e": {"value_int": 7},
        "f": {"value_ints": [7, 8]},
    }
    nodes = [node("Constant", [], [k], **attrs) for k, attrs in forms.items()]
    got = run_module(capture_onnx(model(nodes, {}, list(forms))), {})
    want: list[Any] = [1.5, [1.0, 2.0], floats(2, 2), [0, 5, 0, 6], 7, [7, 8]]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, np.asarray(b, a.dtype))
    assert [a.dtype.kind for a in got] == list("ffffii")


def test_an_initializer_listed_as_input_is_a_constant() -> None:
    proto = model(
        [node("Add", ["x", "w"], ["y"])],
        {"x": (FLOAT, (3,)), "w": (FLOAT, (3,))},
        ["y"],
        {"w": floats(3)},
        opset=8,
        ir=3,
    )
    assert check(proto, {"x": floats(3, seed=1)}).main.input_names == ["x"]


def test_dims_without_a_name_are_different() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ("?", "?", -1, None, "", 5))}, ["y"])
    module = capture_onnx(proto)
    shape = module.main.inputs[0].type.shape
    assert len({str(d) for d in shape}) == 6
    assert shape[5] == 5
    assert list(module.main.symbols) == ["x_d0", "x_d1", "x_d2", "x_d3", "x_d4"]


def test_odd_dim_names_become_identifiers_and_are_kept() -> None:
    names = ("p2o.DynamicDimension.0", "batch size", "batch-size", "1st", "max")
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, names)}, ["y"])
    module = capture_onnx(proto)
    assert all(name.isidentifier() for name in module.main.symbols)
    assert list(module.source["dims"].values()) == list(names)


def test_a_name_is_one_dim_everywhere_and_renamed_everywhere() -> None:
    proto = model(
        [node("Add", ["x", "z"], ["y"])], {"x": (FLOAT, ("n", 3)), "z": (FLOAT, ("n", 3))}, ["y"]
    )
    assert capture_onnx(proto).main.constraints == []
    module = capture_onnx(proto, dynamic={"x": {0: "batch"}})
    assert list(module.main.symbols) == ["batch"]
    module = capture_onnx(proto, input_shapes={"z": (4, None)})
    assert [v.type.shape for v in module.main.inputs] == [(4, 3), (4, 3)]
    _refused(proto, "given two sizes", input_shapes={"x": (4, 3), "z": (5, 3)})


def test_derived_dims_are_read_as_expressions() -> None:
    proto = model(
        [node("Relu", ["a"], ["b"]), node("Relu", ["x"], ["y"])],
        {"a": (FLOAT, ("seq",)), "x": (FLOAT, ("2*seq + 1",))},
        ["b", "y"],
    )
    shapes = [str(v.type.shape[0]) for v in capture_onnx(proto).main.inputs]
    assert shapes == ["seq", "2 * seq + 1"]


def test_constraints_narrow_and_unknown_names_are_errors() -> None:
    proto = _relu(("n", "m"))
    module = capture_onnx(proto, constraints=["n >= 2", "n <= 8", "m % 4 == 0"])
    assert module.main.symbols["n"] == (2, 8)
    assert [str(c) for c in module.main.constraints] == ["n >= 2", "n <= 8", "m % 4 == 0"]
    for said, constraints in (
        ("no dimension is called k", ["k > 1"]),
        ("no sizes satisfy", ["n > 5", "n < 3"]),
    ):
        with pytest.raises(ShapeConstraintError, match=said):
            capture_onnx(proto, constraints=constraints)


def test_unknown_inputs_and_ranks_are_errors() -> None:
    for said, shapes in (("no input 'z'", {"z": (1,)}), ("has rank 2", {"x": (1,)})):
        with pytest.raises(InputError, match=said):
            capture_onnx(_relu(), input_shapes=shapes)
    with pytest.raises(InputError, match="axis 2 of 'x', which has rank 2"):
        capture_onnx(_relu(), dynamic={"x": {2: "n"}})
    _refused(_relu(None), "has no declared shape")
    module = capture_onnx(_relu(None), input_shapes={"x": (None, 3)})
    assert module.main.inputs[0].type.rank == 2


def test_odd_tensor_and_node_names() -> None:
    names = ["a b", "ä/ö:0", "%1", '"q"', "123"]
    nodes = [node("Relu", [a], [b], name="same") for a, b in zip(["x"] + names, names + ["y\n"])]
    module = capture_onnx(model(nodes, {"x": (FLOAT, (3,))}, ["y\n"]))
    assert module.main.output_names == ["y\n"]
    (y,) = run_module(module, {"x": floats(3)})
    np.testing.assert_array_equal(y, np.maximum(floats(3), 0))


def test_nodes_out_of_order_are_sorted() -> None:
    proto = model(
        [node("Exp", ["b"], ["y"]), node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"])],
        {"x": (FLOAT, (3,))},
        ["y"],
    )
    x = floats(3)
    (y,) = run_module(capture_onnx(proto), {"x": x})
    np.testing.assert_allclose(y, np.exp(-np.maximum(x, 0)), rtol=1e-6)


def test_graphs_that_are_none() -> None:
    x = {"x": (FLOAT, (3,))}
    cycle = [node("Add", ["x", "b"], ["a"], name="first"), node("Neg", ["a"], ["b"], name="second")]
    _refused(model(cycle, x, ["b"]), "form a cycle: first, second")
    _refused(model([node("Neg", ["none"], ["y"])], x, ["y"]), "'none' is read, but nothing")
    _refused(model([node("Neg", ["x"], ["a"])], x, ["y"]), "'y' is read, but nothing")
    twice = [node("Neg", ["x"], ["y"]), node("Relu", ["x"], ["y"])]
    _refused(model(twice, x, ["y"]), "'y' is produced twice")
    _refused(model([node("Neg", ["x"], ["x"])], x, ["x"]), "'x' is produced twice")
    _refused(model([node("Add", ["x"], ["y"])], x, ["y"]), "needs an input 1")
    _refused(model([node("Transpose", ["x"], ["y"], perm=[0, 0])], x, ["y"]), "no permutation")
    _refused(model([node("Concat", ["x", "x"], ["y"])], x, ["y"]), "needs the attribute 'axis'")
    _refused(model([], x, []), "no outputs")
    _refused(model([node("Neg", ["x"], ["y"])], x, ["y"], opset=999), "opset 999")


def test_all_unsupported_nodes_are_listed_at_once() -> None:
    proto = model(
        [
            node("OtherThing", ["x"], ["a"], domain="com.example", name="other"),
            node("Relu", ["a"], ["b"], name="after"),
            node("ImageDecoder", ["x"], ["c"], name="decoder"),
            node("FusedThing", ["c"], ["d"], domain="com.example", name="own"),
            node("Relu", ["d"], ["y"]),
        ],
        {"x": (FLOAT, (1, 4, 4))},
        ["y", "b"],
        opsets=[helper.make_opsetid("com.example", 3)],
    )
    with pytest.raises(UnsupportedOpError) as found:
        capture_onnx(proto)
    assert [(n.op, n.where) for n in found.value.nodes] == [
        ("com.example.OtherThing (opset 3)", "other"),
        ("ai.onnx.ImageDecoder (opset 17)", "decoder"),
        ("com.example.FusedThing (opset 3)", "own"),
    ]
    assert found.value.nodes[0].dtype == "f32"
    assert "decodes files" in found.value.nodes[1].reason
    assert all(n.reason and n.hint for n in found.value.nodes)


def test_nodes_that_no_output_needs_are_left_out() -> None:
    proto = model(
        [node("RandomNormalLike", ["x"], ["unused"]), node("Relu", ["x"], ["y"])],
        {"x": (FLOAT, (3,))},
        ["y"],
    )
    ops = [op.short for op in capture_onnx(proto).main.walk()]
    assert ops == ["constant", "broadcast", "max", "return"]


def test_functions_are_inlined_and_may_not_call_themselves() -> None:
    body = [
        node("Mul", ["v", "v"], ["s"]),
        helper.make_node("LeakyRelu", ["s"], ["t"]),
        node("Neg", ["t"], ["w"]),
    ]
    body[1].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "F", ["v"], ["w"], body, opsets, ["slope"])
    proto = model(
        [node("F", ["x"], ["y"], domain="own", slope=0.5, name="call")],
        {"x": (FLOAT, (4,))},
        ["y"],
        opsets=opsets[1:],
        functions=[function],
    )
    module = check(proto, {"x": floats(4)})
    assert any(op.loc.name == "call/Mul_0" for op in module.main.walk())
    itself = [node("F", ["v"], ["w"], domain="own")]
    loop = helper.make_function("own", "F", ["v"], ["w"], itself, opsets)
    del proto.functions[:]
    proto.functions.append(loop)
    _refused(proto, "nested more than 64 deep")
