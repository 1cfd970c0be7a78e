"""Branches and loops whose sizes the data decides, compiled, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

from cuvil.errors import ShapeConstraintError, UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from tests.codegen.compile_graph import build, outputs_of
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tests.frontends.test_onnx_loops import BOOL, I64, STEP, F, body, both, info, names


def test_branches_of_different_sizes() -> None:
    """One gives all rows, the other those that are positive, and a constant number of zeros."""

    def branch(nodes: Sequence[Any], *results: str) -> Any:
        return helper.make_graph(list(nodes), results[0], [], [info(r) for r in results])

    picks = [
        node("Greater", ["x", "zero"], ["p"]),
        node("Compress", ["x", "p"], ["few"], axis=0),
        node("Expand", ["zero", "five"], ["z5"]),
    ]
    whole = [node("Identity", ["x"], ["all"]), node("Expand", ["zero", "two"], ["z2"])]
    nodes = [
        node(
            "If", ["c"], ["y", "z"],
            then_branch=branch(picks, "few", "z5"), else_branch=branch(whole, "all", "z2"),
        ),
        node("Mul", ["y", "y"], ["w"]),
    ]  # fmt: skip
    constants = {"zero": np.array(0, F), "two": np.array([2], I64), "five": np.array([5], I64)}
    proto = model(nodes, {"c": (BOOL, ()), "x": (FLOAT, ("n",))}, ["y", "z", "w"], constants)
    x = np.array([1, -2, 3, -4, -5, 6, -7], F)
    both(proto, [{"c": np.array(c), "x": x[:n]} for c in (True, False) for n in (1, 2, 7)])


def test_rows_of_a_loop_that_data_ends() -> None:
    nodes = [
        node("Mul", ["v", "two"], ["v2"]),
        node("ReduceSum", ["v2"], ["s"], keepdims=0),
        node("Less", ["s", "limit"], ["c2"]),
    ]
    inside = body(
        nodes, [*STEP, info("v")], [info("c2", BOOL), info("v2"), info("s"), info("v2")]
    )
    loop = node("Loop", ["m", "go", "x"], ["last", "sums", "rows"], body=inside)
    shapes = {"x": (FLOAT, ("n",)), "limit": (FLOAT, ()), "m": (INT64, ()), "go": (BOOL, ())}
    proto = model([loop], shapes, ["last", "sums", "rows"], {"two": np.array(2, F)})
    calls = [
        {"x": np.ones(n, F), "limit": np.array(limit, F), "m": np.array(m, I64), "go": np.array(g)}
        for n, limit, m, g in ((3, 50, 100, True), (3, 50, 2, True), (1, 1e5, 100, True))
    ]
    module = both(proto, calls)
    assert {"scf.while", "scf.for", "cuvil.sizes"} <= names(module)
    with build(module) as artifact:
        none = {**calls[0], "go": np.array(False)}
        last, sums, rows = outputs_of(artifact, module, none)
    np.testing.assert_array_equal(last, none["x"])
    assert sums.shape == (0,) and rows.shape == (0, 3)


def test_rows_of_a_number_of_trips_that_data_tells() -> None:
    nodes = [node("Identity", ["c"], ["c2"]), node("Add", ["v", "v"], ["v2"])]
    inside = body(nodes, [*STEP, info("v")], [info("c2", BOOL), info("v2"), info("v")])
    loop = node("Loop", ["m", "go", "x"], ["last", "rows"], body=inside)
    shapes = {"x": (FLOAT, (2,)), "m": (INT64, ()), "go": (BOOL, ())}
    proto = model([loop], shapes, ["last", "rows"])
    x = np.array([1, -3], F)
    module = both(proto, [{"x": x, "m": np.array(m, I64), "go": np.array(True)} for m in (1, 4, 9)])
    assert "scf.while" not in names(module)
    with build(module) as artifact:
        for m, go in ((-5, True), (0, True), (7, False)):
            call = {"x": x, "m": np.array(m, I64), "go": np.array(go)}
            assert outputs_of(artifact, module, call)[1].shape == (0, 2)


def test_a_carried_value_may_not_change_its_shape() -> None:
    """x[i:i+1] is one element, but for trips beyond the end; rows that grow are refused."""

    def loop(nodes: Sequence[Any]) -> ModelProto:
        inside = body(
            [node("Identity", ["c"], ["c2"]), *nodes], [*STEP, info("v")],
            [info("c2", BOOL), info("w"), info("w")],
        )  # fmt: skip
        step = node("Loop", ["m", "", "init"], ["last", "rows"], body=inside)
        shapes = {"m": (INT64, ()), "x": (FLOAT, ("n",)), "init": (FLOAT, (1,))}
        return model([step], shapes, ["last", "rows"], {"one": np.array([1], I64)})

    piece = [
        node("Constant", [], ["zero"], value_ints=[0]),
        node("Unsqueeze", ["i", "zero"], ["from"]),
        node("Add", ["from", "one"], ["to"]),
        node("Slice", ["x", "from", "to"], ["p"]),
    ]
    proto = loop([*piece, node("Add", ["v", "p"], ["w"])])
    x = np.arange(1, 6, dtype=F)
    calls = [{"m": np.array(m, I64), "x": x, "init": np.ones(1, F)} for m in (1, 3, 5)]
    module = both(proto, calls)
    beyond = {**calls[0], "m": np.array(6, I64)}
    with build(module) as artifact, pytest.raises(ShapeConstraintError, match="keeps its shape"):
        artifact.run(beyond)
    with pytest.raises(UnsupportedOpError, match="the size of its rows changes from trip to trip"):
        capture_onnx(loop([node("Concat", ["v", "init"], ["w"], axis=0)]))


def test_a_trip_that_was_tried_in_vain_leaves_nothing() -> None:
    """The first trip is written out before it is seen that data ends the loop. What it would do
    must not happen in a call without trips: here it looks up an index that is not there."""
    nodes = [
        node("Gather", ["x", "far"], ["p"]),
        node("Add", ["v", "p"], ["v2"]),
        node("Less", ["v2", "limit"], ["c2"]),
    ]
    inside = body(nodes, [*STEP, info("v")], [info("c2", BOOL), info("v2")])
    loop = node("Loop", ["", "yes", "init"], ["last"], body=inside)

    def branch(nodes: Sequence[Any], name: str) -> Any:
        return helper.make_graph(list(nodes), name, [], [info(name)])

    choose = node(
        "If", ["c"], ["y"], then_branch=branch([loop], "last"),
        else_branch=branch([node("Identity", ["init"], ["same"])], "same"),
    )  # fmt: skip
    shapes = {"c": (BOOL, ()), "x": (FLOAT, ("n",)), "init": (FLOAT, ()), "far": (INT64, ())}
    constants = {"yes": np.array(True), "limit": np.array(9, F)}
    proto = model([choose], shapes, ["y"], constants)
    far = {"x": np.ones(2, F), "init": np.array(3, F), "far": np.array(7, I64)}
    near = {**far, "far": np.array(1, I64)}
    module = both(proto, [{**far, "c": np.array(False)}, {**near, "c": np.array(True)}])
    assert [op.short for op in module.main.walk()].count("gather") == 1
