"""Made-up integers fit the use that the program makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.signature import Signature, TensorSpec
from cuvil.verify.inputs import make_inputs
from cuvil.verify.ranges import integer_limits
from tests.frontends.onnx_models import FLOAT, INT64, floats, model, node


def test_an_index_stays_inside_the_smallest_table() -> None:
    nodes = [
        node("Cast", ["ids"], ["narrow"], to=TensorProto.INT32),
        node("Gather", ["big", "narrow"], ["a"], axis=0),
        node("Gather", ["small", "ids"], ["b"], axis=1),
        node("Transpose", ["b"], ["c"], perm=[1, 0]),
        node("Add", ["a", "c"], ["y"]),
    ]
    constants = {"big": floats(30, 4), "small": floats(4, 20)}
    proto = model(nodes, {"ids": (INT64, [5])}, ["y"], constants)
    assert integer_limits(capture_onnx(proto)) == {"ids": 20}


@pytest.mark.parametrize(("constant", "limit"), [(np.arange(9), 9), (np.array(0), 2)])
def test_what_is_compared_reaches_the_constants(constant: np.ndarray, limit: int) -> None:
    nodes = [
        node("Equal", ["ids", "known"], ["e"]),
        node("Cast", ["e"], ["y"], to=TensorProto.FLOAT),
    ]
    inputs = {"ids": (INT64, [4, 1])}
    proto = model(nodes, inputs, ["y"], {"known": constant.astype(np.int64)})
    assert integer_limits(capture_onnx(proto)) == {"ids": limit}


def test_other_uses_and_floats_tell_nothing() -> None:
    nodes = [
        node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        node("Mul", ["x", "m"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [3]), "mask": (INT64, [3])}, ["y"])
    assert integer_limits(capture_onnx(proto)) == {}


def test_inputs_are_made_below_their_limits() -> None:
    signature = Signature((TensorSpec("a", "i64", (1000,)), TensorSpec("b", "u8", (1000,))))
    rng = np.random.default_rng(0)
    made = make_inputs(signature, {}, {}, rng, {"a": 50})
    assert made["a"].min() == 0 and made["a"].max() == 49
    assert set(made["b"]) == {0, 1}
    wide = make_inputs(signature, {}, {}, rng, {"b": 100000})
    assert 200 < wide["b"].max() < 256
