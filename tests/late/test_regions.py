"""Late sizes inside branches and loops: each run of a region finds its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from cuvil.analysis.wellformed import check_graph
from cuvil.errors import ShapeConstraintError
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.parser import parse_module
from cuvil.ir.printer import print_module
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tools.quick_build import quick_build

BOOL = TensorProto.BOOL


def value(name: str, kind: int, shape: list[object] | None) -> object:
    return helper.make_tensor_value_info(name, kind, shape)


def summed(source: str, result: str) -> list[object]:
    """The sum of the indices of what is not zero in a vector."""
    return [
        node("NonZero", [source], [f"{result}_at"]),
        node("Gather", ["data", f"{result}_at"], [f"{result}_picked"]),
        node("ReduceSum", [f"{result}_picked"], [result], keepdims=0),
    ]


def test_a_loop_whose_trips_find_sizes(tmp_path: Path) -> None:
    """Each trip sums data at the places where x is not the number of the trip."""
    body = helper.make_graph(
        [
            node("Cast", ["i"], ["number"], to=FLOAT),
            node("Sub", ["x", "number"], ["shifted"]),
            *summed("shifted", "part"),
            node("Add", ["total", "part"], ["next"]),
            node("Identity", ["going"], ["go"]),
        ],
        "body",
        [value("i", INT64, []), value("going", BOOL, []), value("total", FLOAT, [])],
        [value("go", BOOL, []), value("next", FLOAT, []), value("part", FLOAT, [])],
    )
    proto = model(
        [node("Loop", ["n", "", "zero"], ["sum", "parts"], body=body)],
        {"x": (FLOAT, ["k"]), "data": (FLOAT, ["k"]), "n": (INT64, [])}, ["sum", "parts"],
        {"zero": np.float32(0)},
    )  # fmt: skip
    module = capture_onnx(proto)
    check_graph(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    check_graph(lower(capture_onnx(proto), "fused", PassOptions()))
    artifact = quick_build(module, tmp_path, 0)
    x, data = np.float32([0, 1, 1, 5, 2, 0]), np.float32([1, 2, 4, 8, 16, 32])
    for n in (0, 1, 3, 7, 3):
        feed = {"x": x, "data": data, "n": np.array(n)}
        parts = np.array([data[x != i].sum() for i in range(n)], np.float32)
        for got in (list(artifact.run(feed).values()), run_module(module, feed)):
            np.testing.assert_array_equal(got[1], parts)
            assert got[0] == parts.sum()


def test_a_branch_that_finds_sizes(tmp_path: Path) -> None:
    branches = {
        f"{name}_branch": helper.make_graph(nodes, name, [], [value(f"{name}_out", FLOAT, [])])
        for name, nodes in (
            ("then", summed("x", "then_out")),
            ("else", [node("ReduceSum", ["data"], ["else_out"], keepdims=0)]),
        )
    }
    proto = model(
        [node("If", ["c"], ["y"], **branches)],
        {"x": (FLOAT, ["k"]), "data": (FLOAT, ["k"]), "c": (BOOL, [])}, ["y"],
    )  # fmt: skip
    module = capture_onnx(proto)
    check_graph(module)
    artifact = quick_build(module, tmp_path, 0)
    x, data = np.float32([0, 1, 0, 5]), np.float32([1, 2, 4, 8])
    for c, want in ((True, 10), (False, 15)):
        feed = {"x": x, "data": data, "c": np.array(c)}
        assert artifact.run(feed)["y"] == want == run_module(module, feed)[0]


def test_a_rule_that_a_branch_breaks_is_named(tmp_path: Path) -> None:
    """The branch reshapes to a shape that is an input."""
    then = [
        node("Reshape", ["x", "shape"], ["wide"]),
        node("ReduceMax", ["wide"], ["then_out"], keepdims=0),
    ]
    otherwise = [node("ReduceMin", ["x"], ["else_out"], keepdims=0)]
    proto = model(
        [
            node(
                "If", ["c"], ["y"],
                then_branch=helper.make_graph(then, "t", [], [value("then_out", FLOAT, [])]),
                else_branch=helper.make_graph(otherwise, "e", [], [value("else_out", FLOAT, [])]),
            )
        ],
        {"x": (FLOAT, [6]), "shape": (INT64, [2]), "c": (BOOL, [])}, ["y"],
    )  # fmt: skip
    artifact = quick_build(capture_onnx(proto), tmp_path, 0)
    x = np.arange(6, dtype=np.float32)
    assert artifact(x, np.array([2, 3]), np.array(True)) == 5
    assert artifact(x, np.array([7, 7]), np.array(False)) == 0
    with pytest.raises(ShapeConstraintError):
        artifact(x, np.array([7, 7]), np.array(True))
