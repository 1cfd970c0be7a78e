"""Linear models, support vector machines, features, encoders and maps of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cuvil
from cuvil.errors import InputError, InvalidModelError, UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from tests.frontends.ml_models import (
    FLOAT,
    INT64,
    ML,
    assert_same,
    model_of,
    one_node,
    run_captured,
    run_ort,
    tensor,
)

STRING, DOUBLE, INT32 = TensorProto.STRING, TensorProto.DOUBLE, TensorProto.INT32
RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 4)).astype(np.float32)
WORDS = np.array([["a", "b"], ["c", "zz"], ["a", "c"]], dtype=object)


def _numbers(*shape: int) -> list[float]:
    return [float(v) for v in np.random.default_rng(len(shape)).standard_normal(shape).ravel()]


def both(op: str, inputs: dict[str, Any], outputs: dict[str, int], **attrs: Any) -> dict[str, Any]:
    """The outputs, which must be those of onnxruntime."""
    model = one_node(op, inputs, outputs, attrs.pop("version", 3), **attrs)
    found = run_captured(model, inputs)
    assert_same(found, run_ort(model, inputs), 2e-5)
    return found


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_linear_models(transform: str) -> None:
    more = {"post_transform": transform}
    for x in (X, X.astype(np.float64), np.arange(8, dtype=np.int64).reshape(2, 4)):
        both("LinearClassifier", {"x": x}, {"y": INT64, "z": FLOAT}, coefficients=_numbers(3, 4),
             intercepts=_numbers(3), classlabels_ints=[4, 2, 9], **more)  # fmt: skip
    both("LinearClassifier", {"x": X}, {"y": STRING, "z": FLOAT}, coefficients=_numbers(2, 4),
         intercepts=_numbers(2), classlabels_strings=["no", "yes"], **more)  # fmt: skip
    both("LinearRegressor", {"x": X}, {"y": FLOAT}, coefficients=_numbers(3, 4), targets=3,
         intercepts=_numbers(3), **more)  # fmt: skip
    both("LinearRegressor", {"x": X}, {"y": FLOAT}, coefficients=_numbers(2, 4), targets=2, **more)


def test_a_binary_linear_model_of_one_row() -> None:
    """Scores -s and s, then the transform: onnxruntime leaves the transform out here."""
    model = one_node(
        "LinearClassifier", {"x": X}, {"y": INT64, "z": FLOAT}, coefficients=_numbers(4),
        intercepts=[0.5], classlabels_ints=[3, 8], post_transform="LOGISTIC",
    )  # fmt: skip
    found = run_captured(model, {"x": X})
    s = X @ np.array(_numbers(4), np.float32) + 0.5
    np.testing.assert_allclose(found["z"][:, 1], 1 / (1 + np.exp(-s)), rtol=1e-5)
    np.testing.assert_allclose(found["z"].sum(1), 1, rtol=1e-6)
    np.testing.assert_array_equal(found["y"], np.where(s > 0, 8, 3))


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vector_machines(kernel: str) -> None:
    shape = {"kernel_type": kernel, "kernel_params": [0.3, 0.5, 3.0]}
    vectors = {"support_vectors": _numbers(6, 4), **shape}
    for one_class in (0, 1):
        both("SVMRegressor", {"x": X}, {"y": FLOAT}, n_supports=6, coefficients=_numbers(6),
             rho=[0.1], one_class=one_class, **vectors)  # fmt: skip
    both("SVMRegressor", {"x": X}, {"y": FLOAT}, coefficients=_numbers(4), rho=[0.1], **shape)
    outs = {"y": INT64, "z": FLOAT}
    three = {"vectors_per_class": [2, 1, 3], "classlabels_ints": [7, 5, 6], "rho": [0.1, -0.2, 0.3]}
    both("SVMClassifier", {"x": X}, outs, coefficients=_numbers(2, 6), **three, **vectors)
    two = {"vectors_per_class": [2, 4], "classlabels_strings": ["u", "v"], "rho": [0.1]}
    text = {"y": STRING, "z": FLOAT}
    both("SVMClassifier", {"x": X}, text, coefficients=_numbers(6), **two, **vectors)
    for names, count, given in ((three, 3, 2), (two, 1, 1)):
        model = one_node(
            "SVMClassifier", {"x": X}, outs if names is three else text,
            coefficients=_numbers(given, 6), prob_a=[-1.0, -0.5, -2.0][:count],
            prob_b=[0.1, 0.0, -0.1][:count], **names, **vectors,
        )  # fmt: skip
        # onnxruntime iterates in f32, and stops when two steps are near enough.
        assert_same(run_captured(model, {"x": X}), run_ort(model, {"x": X}), 2e-3)
    linear = {"coefficients": _numbers(3, 4), "rho": [0.25], "classlabels_ints": [1, 2, 3], **shape}
    both("SVMClassifier", {"x": X}, outs, **linear)


def test_features() -> None:
    for x in (X, X.astype(np.float64), (X * 9).astype(np.int64), (X * 9).astype(np.int32), X[0]):
        one, four = {"offset": [0.5], "scale": [2.0]}, {"offset": _numbers(4), "scale": [1.0] * 4}
        for more in (one, four):
            both("Scaler", {"x": x}, {"y": FLOAT}, **more)
        for norm in ("MAX", "L1", "L2"):
            both("Normalizer", {"x": x}, {"y": FLOAT}, norm=norm)
    both("Normalizer", {"x": np.zeros((2, 3), np.float32)}, {"y": FLOAT}, norm="L2")
    both("Binarizer", {"x": X}, {"y": FLOAT}, threshold=0.25)
    holes = np.where(X > 0.5, np.float32(np.nan), X)
    nan = float("nan")
    for values in ([1.5], _numbers(4)):
        more = {"imputed_value_floats": values, "replaced_value_float": nan}
        both("Imputer", {"x": holes}, {"y": FLOAT}, **more)
    whole = np.array([[0, 1, 1 << 40], [2, 0, 7]], np.int64)
    both("Imputer", {"x": whole}, {"y": INT64}, imputed_value_int64s=[-1], replaced_value_int64=0)
    for x in (X, (X * 9).astype(np.int64)):
        both("FeatureVectorizer", {"a": x, "b": x}, {"y": FLOAT}, inputdimensions=[3, 6])
    for index in (np.array([3, 0, 3]), np.array([[1, 2]]), np.array([0])):
        both("ArrayFeatureExtractor", {"x": X, "i": index}, {"y": FLOAT})
    both("ArrayFeatureExtractor", {"x": X[0], "i": np.array([1, 3])}, {"y": FLOAT})


def test_integers_above_a_threshold() -> None:
    x = np.array([[-3, -2, 2, 3]], np.int64)
    for threshold, wanted in ((2.5, [0, 0, 0, 1]), (-2.5, [0, 1, 1, 1]), (1e30, [0] * 4)):
        model = one_node("Binarizer", {"x": x}, {"y": INT64}, threshold=threshold)
        np.testing.assert_array_equal(run_captured(model, {"x": x})["y"], [wanted])


_LISTS = {
    "int64s": [5, -7, 5, 1 << 40], "floats": [0.5, float("nan"), -0.0, 0.5],
    "strings": ["a", "b", "c", "a"],
}  # fmt: skip
_INPUTS = {
    "int64s": np.array([[5, 6, -7], [1 << 40, 0, 5]]),
    "floats": np.array([[0.5, np.nan, 0.0], [7, np.inf, -1]], np.float32), "strings": WORDS,
}  # fmt: skip
_CODES = {"int64s": INT64, "floats": FLOAT, "strings": STRING}


@pytest.mark.parametrize("values", list(_LISTS))
@pytest.mark.parametrize("keys", list(_LISTS))
def test_label_encoders(keys: str, values: str) -> None:
    lists = {f"keys_{keys}": _LISTS[keys], f"values_{values}": _LISTS[values]}
    if keys == "floats":  # before version 4 onnxruntime finds no NaN
        lists[f"keys_{keys}"] = [0.5, 3.0, -0.0, 0.5]
    for version in (2, 4):
        if keys == values and (version == 2 or keys == "floats"):
            continue  # pairs that onnxruntime has no kernel for
        both("LabelEncoder", {"x": _INPUTS[keys]}, {"y": _CODES[values]}, version=version, **lists)
    model = one_node("LabelEncoder", {"x": _INPUTS[keys]}, {"y": _CODES[values]}, 4, **lists)
    defaults = {"int64s": -1, "floats": -0.0, "strings": "_Unused"}
    table = dict(reversed(list(zip(lists[f"keys_{keys}"], _LISTS[values]))))
    flat = [table.get(k, defaults[values]) for k in _INPUTS[keys].ravel().tolist()]
    found = run_captured(model, {"x": _INPUTS[keys]})["y"]
    np.testing.assert_array_equal(found.ravel(), np.array(flat, found.dtype))


def test_encoders_with_tensors() -> None:
    x = np.array([1, 2, 3], np.int16)
    attrs = {
        "keys_tensor": numpy_helper.from_array(np.array([3, 1], np.int16)),
        "values_tensor": numpy_helper.from_array(np.array([0.5, 1.5])),
        "default_tensor": numpy_helper.from_array(np.array([-9.0])),
    }
    model = one_node("LabelEncoder", {"x": x}, {"y": DOUBLE}, 4, **attrs)
    found = run_captured(model, {"x": x})["y"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.5, -9, 0.5])
    many = np.random.default_rng(0).permutation(5000)[:999].astype(np.float64)
    attrs["keys_tensor"] = numpy_helper.from_array(np.append(many, np.nan))
    attrs["values_tensor"] = numpy_helper.from_array(np.arange(1000.0))
    x = np.append(np.arange(-3.0, 5003.0), [np.nan, np.inf, -np.inf, 0.5])
    model = one_node("LabelEncoder", {"x": x}, {"y": DOUBLE}, 4, **attrs)
    table = {float(k): float(i) for i, k in enumerate(many)}
    wanted = [999.0 if np.isnan(v) else table.get(float(v), -9.0) for v in x]
    np.testing.assert_array_equal(run_captured(model, {"x": x})["y"], wanted)


def test_encoders_of_version_1_and_categories() -> None:
    classes = {"classes_strings": ["c", "a", "x"], "default_int64": 7, "default_string": "?"}
    numbers = np.array([[0, 2, 5]])
    both("LabelEncoder", {"x": WORDS}, {"y": INT64}, version=1, **classes)
    both("LabelEncoder", {"x": numbers}, {"y": STRING}, version=1, **classes)
    cats = {"cats_strings": ["c", "a", "x"], "cats_int64s": [5, 0, 9]}
    both("CategoryMapper", {"x": WORDS}, {"y": INT64}, **cats)
    both("CategoryMapper", {"x": numbers}, {"y": STRING}, **cats)
    hot = {"cats_int64s": [5, 0, 2], "zeros": 1}
    for x in (numbers, numbers.astype(np.float32) + 0.75, numbers.astype(np.float64), numbers[0]):
        both("OneHotEncoder", {"x": x}, {"y": FLOAT}, **hot)
    both("OneHotEncoder", {"x": WORDS}, {"y": FLOAT}, cats_strings=["c", "a", "zz"], zeros=1)


def test_an_unknown_category_can_be_an_error() -> None:
    x = np.array([1, 2])
    compiled = cuvil.compile(one_node("OneHotEncoder", {"x": x}, {"y": FLOAT}, cats_int64s=[1, 2],
                                      zeros=0))  # fmt: skip
    np.testing.assert_array_equal(compiled(x), np.eye(2))
    with pytest.raises(InputError, match="index"):
        compiled(np.array([1, 3]))


def _node(op: str, inputs: str, outputs: str, domain: str = "", **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), domain=domain, **attrs)


def _strings_pass_through() -> onnx.ModelProto:
    """Columns of strings are picked, joined, compared, encoded, and given back."""
    nodes = [
        _node("ArrayFeatureExtractor", "words first", "column", ML),
        _node("Concat", "column more", "joined", axis=0),
        _node("Equal", "joined known", "same"),
        _node("Where", "same known joined", "chosen"),
        _node("OneHotEncoder", "joined", "hot", ML, cats_strings=["a", "c"]),
        _node("LabelEncoder", "chosen", "label", ML, keys_strings=["a", "zz"],
              values_strings=["first", "last"], default_string="other"),
    ]  # fmt: skip
    model = model_of(
        nodes,
        [tensor("words", STRING, ["N", 2]), tensor("more", STRING, ["M", 1])],
        [tensor("joined", STRING, ["K", 1]), tensor("same", TensorProto.BOOL, ["K", 1]),
         tensor("hot", FLOAT, ["K", 1, 2]), tensor("label", STRING, ["K", 1])],
    )  # fmt: skip
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "first"))
    known = helper.make_tensor("known", STRING, [1], [b"zz"])
    model.graph.initializer.append(known)
    return model


def test_strings_pass_through_the_library() -> None:
    inputs = {"words": WORDS, "more": np.array([["zz"], ["\u00e9t\u00e9"], ["new"]], dtype=object)}
    wanted = {
        "joined": np.array([["a"], ["c"], ["a"], ["zz"], ["\u00e9t\u00e9"], ["new"]], dtype=object),
        "same": np.array([[False], [False], [False], [True], [False], [False]]),
        "hot": np.array([[[1, 0]], [[0, 1]], [[1, 0]], [[0, 0]], [[0, 0]], [[0, 0]]], np.float32),
        "label": np.array([["first"], *[["other"]] * 5], dtype=object),
    }
    wanted["label"][2:4, 0] = ["first", "last"]
    model = _strings_pass_through()
    assert_same(run_captured(model, inputs), wanted, 0)
    compiled = cuvil.compile(model)
    assert_same(compiled.run(inputs), wanted, 0)
    assert [(s.dtype, s.rank) for s in compiled.inputs] == [("str", 2), ("str", 2)]
    assert cuvil.verify(compiled, inputs).passed
    with pytest.raises(InputError, match="takes strings"):
        compiled.run({**inputs, "more": np.zeros((1, 1))})


def test_what_needs_the_letters_of_made_strings_is_refused() -> None:
    encode = _node("LabelEncoder", "x", "words", ML, keys_int64s=[1], values_strings=["7"])
    nodes = [encode, _node("Cast", "words", "y", to=FLOAT)]
    model = model_of(nodes, [tensor("x", INT64, ["N"])], [tensor("y", FLOAT, ["N"])])
    with pytest.raises(UnsupportedOpError, match="Cast_1: strings are not supported"):
        capture_onnx(model)


def test_zip_map() -> None:
    for keys in ({"classlabels_strings": ["u", "v", "w"]}, {"classlabels_int64s": [3, -1, 9]}):
        node = _node("ZipMap", "x", "z", ML, **keys)
        kind = helper.make_map_type_proto(
            STRING if "classlabels_strings" in keys else INT64,
            helper.make_tensor_type_proto(FLOAT, []),
        )
        out = helper.make_value_info("z", helper.make_sequence_type_proto(kind))
        model = model_of([node], [tensor("x", FLOAT, ["N", 3])], [out])
        x = X[:, :3].copy()
        found, wanted = run_captured(model, {"x": x}), run_ort(model, {"x": x})
        assert [sorted(m.items()) for m in found["z"]] == [sorted(m.items()) for m in wanted["z"]]
    compiled = cuvil.compile(model)
    assert compiled(x) == found["z"] and compiled.outputs[0].dtype == "map"
    assert cuvil.verify(compiled).passed
    with pytest.raises(InputError, match="map output 'z', which is always new"):
        compiled.run({"x": x}, out={"z": []})


def _of_map(op: str, key: int, value: int, **attrs: Any) -> onnx.ModelProto:
    kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))
    node = _node(op, "m", "y", ML, **attrs)
    out = helper.make_empty_tensor_value_info("y")
    out.type.tensor_type.elem_type = value
    return model_of([node], [helper.make_value_info("m", kind)], [out])


def test_maps_come_in() -> None:
    words = {"string_vocabulary": ["a", "b", "a"]}
    for value in (FLOAT, DOUBLE, INT64):
        model = _of_map("DictVectorizer", STRING, value, **words)
        given = {"m": {"b": 2, "zz": 9, "a": 3}}
        found = run_captured(model, given)["y"]
        np.testing.assert_array_equal(found, [[3, 2, 3]])
        assert found.dtype == helper.tensor_dtype_to_np_dtype(value)
    compiled = cuvil.compile(_of_map("DictVectorizer", INT64, FLOAT, int64_vocabulary=[4, 1]))
    np.testing.assert_array_equal(compiled({1: 0.5}), [[0, 0.5]])
    np.testing.assert_array_equal(compiled.run({"m": {4: 1.5, 7: 1.0}})["y"], [[1.5, 0]])
    assert cuvil.verify(compiled).passed and str(compiled.inputs[0]).startswith("m: map")
    for wrong in ([1.0], {"a": 1.0}, {1: "x"}):
        with pytest.raises(InputError, match="input 'm'"):
            compiled(wrong)
    texts = _of_map("DictVectorizer", INT64, STRING, int64_vocabulary=[4, 1])
    np.testing.assert_array_equal(run_captured(texts, {"m": {1: "x"}})["y"], [["", "x"]])


def test_a_sparse_map_becomes_a_row() -> None:
    model = _of_map("CastMap", INT64, FLOAT, map_form="SPARSE", max_map=4, cast_to="TO_INT64")
    model.graph.output[0].type.tensor_type.elem_type = INT64
    found = run_captured(model, {"m": {1: 2.9, 3: -1.5}})["y"]
    np.testing.assert_array_equal(found, [[0, 2, 0, -1]])
    with pytest.raises(UnsupportedOpError, match="size of its result"):
        capture_onnx(_of_map("CastMap", INT64, FLOAT))


def test_a_saved_artifact_keeps_strings_and_maps(tmp_path: Any) -> None:
    compiled = cuvil.compile(_strings_pass_through())
    inputs = {"words": WORDS, "more": np.array([["q"]], dtype=object)}
    path = tmp_path / "m.cuvilpkg"
    compiled.save(path)
    assert_same(cuvil.load(path).run(inputs), compiled.run(inputs), 0)


@pytest.mark.parametrize(
    ("op", "attrs", "reason"),
    [
        ("LinearClassifier", {"coefficients": [1.0] * 5, "classlabels_ints": [0, 1]}, "5 numbers"),
        ("LinearRegressor", {"coefficients": [1.0] * 4, "intercepts": [1.0] * 2}, "2 intercepts"),
        ("LinearRegressor", {"coefficients": [1.0] * 4, "post_transform": "TANH"}, "TANH"),
        ("SVMRegressor", {"n_supports": 2, "coefficients": [1.0] * 2, "rho": [0.0],
                          "support_vectors": [1.0] * 7}, "support_vectors has 7"),
        ("SVMRegressor", {"coefficients": [1.0] * 4}, "rho has 0"),
        ("SVMRegressor", {"coefficients": [1.0] * 4, "rho": [0.0], "kernel_type": "RBG"}, "RBG"),
        ("SVMClassifier", {"coefficients": [1.0] * 2, "rho": [0.0], "classlabels_ints": [0, 1],
                           "vectors_per_class": [3], "support_vectors": [1.0] * 12}, "vectors_per"),
        ("Normalizer", {"norm": "L3"}, "L3"),
        ("Imputer", {}, "no imputed_value_floats"),
        ("OneHotEncoder", {}, "no categories"),
    ],
)  # fmt: skip
def test_malformed_models_are_refused(op: str, attrs: Any, reason: str) -> None:
    with pytest.raises(InvalidModelError, match=reason):
        capture_onnx(one_node(op, {"x": X}, {"y": FLOAT}, **attrs))
