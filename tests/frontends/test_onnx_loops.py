"""Branches and loops that run as the data says, compiled, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

from cuvil.analysis.wellformed import check_graph
from cuvil.errors import ShapeConstraintError
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.core import Module
from cuvil.ir.parser import parse_module
from cuvil.ir.printer import print_module
from cuvil.ir.weights import weights_of
from cuvil.package.format import open_package
from cuvil.passes.pipeline import lower
from cuvil.reference.interpreter import run_module
from cuvil.runtime.artifact import Artifact
from tests.codegen.compile_graph import build, outputs_of
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tests.runtime.dltensor import CModel, tensor

Array = np.ndarray[Any, Any]
BOOL = TensorProto.BOOL
F, I64 = np.float32, np.int64


def info(name: str, kind: int = FLOAT, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def body(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return helper.make_graph(list(nodes), "body", list(inputs), list(outputs))


STEP = [info("i", INT64, ()), info("c", BOOL, ())]


def both(proto: ModelProto, calls: Sequence[Mapping[str, Array]], bar: float = 1e-5) -> Module:
    """Reference, lowered reference and library against onnxruntime on each call; the module."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    module = capture_onnx(proto)
    check_graph(module)
    text = print_module(module)
    assert print_module(parse_module(text, weights_of(module))) == text
    lowered = lower(parse_module(text, weights_of(module)), "fused")
    check_graph(lowered)
    with build(module) as artifact:
        for inputs in calls:
            want = session.run(None, dict(inputs))
            for got in (
                run_module(module, inputs), run_module(lowered, inputs),
                outputs_of(artifact, module, inputs),
            ):  # fmt: skip
                for a, b in zip(got, want, strict=True):
                    assert a.shape == b.shape
                    np.testing.assert_allclose(a, b, rtol=bar, atol=bar)
    return module


def names(module: Module) -> set[str]:
    return {op.name for op in module.main.walk()}


def test_data_decides_a_branch_with_captures() -> None:
    def branch(op: str, result: str) -> Any:
        return helper.make_graph([node(op, ["x", "w"], [result])], op, [], [info(result)])

    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["big"]),
        node("Mul", ["x", "two"], ["w"]),
        node("If", ["big"], ["r"], then_branch=branch("Sub", "a"), else_branch=branch("Add", "b")),
        node("Exp", ["r"], ["y"]),
    ]
    constants = {"zero": np.array(0, F), "two": np.array(2, F)}
    proto = model(nodes, {"x": (FLOAT, ("n", 3))}, ["y"], constants)
    calls = [{"x": np.full((n, 3), v, F)} for n in (1, 4) for v in (0.5, -0.5)]
    assert "scf.if" in names(both(proto, calls))


def test_while_runs_until_the_data_says_so() -> None:
    nodes = [
        node("Mul", ["v", "two"], ["v2"]),
        node("ReduceSum", ["v2"], ["s"], keepdims=0),
        node("Less", ["s", "limit"], ["c2"]),
        node("Add", ["k", "one"], ["k2"]),
    ]
    results = [info("c2", BOOL), info("v2"), info("k2", INT64)]
    inside = body(nodes, [*STEP, info("v"), info("k", INT64)], results)
    loop = node("Loop", ["m", "go", "x", "zero"], ["last", "trips"], body=inside)
    constants = {"two": np.array(2, F), "one": np.array(1, I64), "zero": np.array(0, I64)}
    shapes = {"x": (FLOAT, ("n",)), "limit": (FLOAT, ()), "m": (INT64, ()), "go": (BOOL, ())}
    proto = model([loop], shapes, ["last", "trips"], constants)
    proto.graph.output[1].type.tensor_type.elem_type = INT64
    calls = [
        {"x": np.ones(n, F), "limit": np.array(limit, F), "m": np.array(m, I64), "go": np.array(go)}
        for n, limit, m, go in (
            (3, 50, 100, True), (3, 50, 2, True), (2, 1e6, 7, True), (2, 9, 100, False),
            (2, 9, 0, True), (1, 9, -3, True), (5, 0, 9, True),
        )
    ]  # fmt: skip
    assert "scf.while" in names(both(proto, calls))


def test_carried_values_change_places() -> None:
    """(a, b) -> (b, a + b), an output that is an input, one that is an outer value."""
    nodes = [
        node("Identity", ["c"], ["c2"]),
        node("Add", ["a", "b"], ["d"]),
        node("Identity", ["b"], ["b2"]),
        node("Identity", ["same"], ["same2"]),
        node("Identity", ["x"], ["outer"]),
    ]
    inside = body(
        nodes,
        [*STEP, info("a"), info("b"), info("same"), info("outer0")],
        [info("c2", BOOL), info("b2"), info("d"), info("same2"), info("outer")],
    )
    loop = node("Loop", ["m", "go", "x", "y", "x", "y"], ["p", "q", "r", "s"], body=inside)
    shapes = {"x": (FLOAT, (2,)), "y": (FLOAT, (2,)), "m": (INT64, ()), "go": (BOOL, ())}
    proto = model([loop], shapes, ["p", "q", "r", "s"])
    x, y = np.array([1, 2], F), np.array([3, 5], F)
    calls = [
        {"x": x, "y": y, "m": np.array(m, I64), "go": np.array(go)}
        for m, go in ((0, True), (1, True), (2, True), (7, True), (3, False))
    ]
    both(proto, calls)


def test_rows_of_a_symbolic_number_of_trips() -> None:
    nodes = [
        node("Identity", ["c"], ["c2"]),
        node("Gather", ["x", "i"], ["row"]),
        node("Add", ["s", "row"], ["s2"]),
        node("Mul", ["s2", "s2"], ["square"]),
        node("ReduceSum", ["s2"], ["total"], keepdims=0),
    ]
    inside = body(
        nodes, [*STEP, info("s")],
        [info("c2", BOOL), info("s2"), info("square"), info("total"), info("s2")],
    )  # fmt: skip
    before = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["m"])]
    loop = node("Loop", ["m", "", "init"], ["last", "rows", "totals", "again"], body=inside)
    proto = model(
        [*before, loop], {"x": (FLOAT, ("n", 3)), "init": (FLOAT, (3,))},
        ["last", "rows", "totals", "again"], {"zero": np.array(0, I64)},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    calls = [
        {"x": rng.standard_normal((n, 3)).astype(F), "init": np.ones(3, F)} for n in (1, 2, 5, 40)
    ]
    module = both(proto, calls)
    assert "scf.for" in names(module)
    empty = {"x": np.zeros((0, 3), F), "init": np.ones(3, F)}
    with build(module) as artifact:
        last, rows, totals, _ = outputs_of(artifact, module, empty)
    np.testing.assert_array_equal(last, empty["init"])
    assert rows.shape == (0, 3) and totals.shape == (0,)


def test_many_trips_are_a_loop_and_few_are_written_out() -> None:
    nodes = [
        node("Identity", ["c"], ["c2"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Add", ["s", "f"], ["s2"]),
    ]
    inside = body(nodes, [*STEP, info("s")], [info("c2", BOOL), info("s2"), info("s2")])
    for trips, looped in ((3, False), (500, True)):
        proto = model(
            [node("Loop", ["m", "", "x"], ["last", "rows"], body=inside)], {"x": (FLOAT, (2,))},
            ["last", "rows"], {"m": np.array(trips, I64)},
        )  # fmt: skip
        module = both(proto, [{"x": np.array([1, -2], F)}])
        assert ("scf.for" in names(module)) == looped


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan_along_a_symbolic_axis(axis: int, back: int) -> None:
    nodes = [
        node("Add", ["s", "v"], ["s2"]),
        node("Mul", ["s2", "u"], ["row"]),
    ]
    inside = body(nodes, [info("s"), info("v"), info("u")], [info("s2"), info("row")])
    scan = node(
        "Scan", ["init", "x", "z"], ["last", "rows"], body=inside, num_scan_inputs=2,
        scan_input_axes=[axis, 0], scan_input_directions=[back, 1 - back],
        scan_output_axes=[axis], scan_output_directions=[back],
    )  # fmt: skip
    shape = ("n", 2) if axis == 0 else (2, "n")
    proto = model(
        [scan], {"init": (FLOAT, (2,)), "x": (FLOAT, shape), "z": (FLOAT, ("n", 2))},
        ["last", "rows"],
    )  # fmt: skip
    rng = np.random.default_rng(1)
    calls = [
        {
            "init": np.ones(2, F),
            "x": rng.standard_normal((n, 2) if axis == 0 else (2, n)).astype(F),
            "z": rng.standard_normal((n, 2)).astype(F),
        }
        for n in (1, 3, 12)
    ]
    assert "scf.for" in names(both(proto, calls))


def test_three_deep() -> None:
    """A branch in a loop in a loop, each reading from all around."""

    def branch(op: str) -> Any:
        made = helper.make_graph([node(op, ["t", "x"], [f"{op}r"])], op, [], [info(f"{op}r")])
        return made

    deepest = [
        node("Identity", ["c_"], ["c2_"]),
        node("Add", ["t_", "w"], ["t"]),
        node("ReduceSum", ["t"], ["sum"], keepdims=0),
        node("Greater", ["sum", "limit"], ["big"]),
        node("If", ["big"], ["t2"], then_branch=branch("Sub"), else_branch=branch("Add")),
    ]
    inner = body(
        deepest, [info("i_", INT64, ()), info("c_", BOOL, ()), info("t_")],
        [info("c2_", BOOL), info("t2")],
    )  # fmt: skip
    outer = body(
        [
            node("Identity", ["c"], ["c2"]),
            node("Mul", ["s", "x"], ["w"]),
            node("Loop", ["m", "c", "s"], ["s2"], body=inner),
        ],
        [*STEP, info("s")], [info("c2", BOOL), info("s2"), info("w")],
    )  # fmt: skip
    before = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["k"])]
    loop = node("Loop", ["k", "", "x"], ["y", "rows"], body=outer)
    proto = model(
        [*before, loop],
        {"x": (FLOAT, ("n",)), "m": (INT64, ()), "limit": (FLOAT, ())}, ["y", "rows"],
        {"zero": np.array(0, I64)},
    )  # fmt: skip
    rng = np.random.default_rng(2)
    calls = [
        {"x": rng.standard_normal(n).astype(F), "m": np.array(m, I64), "limit": np.array(0.5, F)}
        for n, m in ((1, 3), (4, 0), (4, 2), (9, 5))
    ]
    both(proto, calls, 1e-4)


def test_what_a_branch_needs_is_asked_where_it_runs(tmp_path: Path) -> None:
    """Each branch squeezes an axis of another input, whose size is checked by that branch alone."""

    def branch(source: str) -> Any:
        nodes = [node("Squeeze", [source, "one"], [f"{source}s"])]
        return helper.make_graph(nodes, source, [], [info(f"{source}s")])

    choose = node("If", ["c"], ["y"], then_branch=branch("x"), else_branch=branch("z"))
    shapes = {"c": (BOOL, ()), "x": (FLOAT, ("n", "a")), "z": (FLOAT, ("n", "b"))}
    proto = model([choose], shapes, ["y"], {"one": np.array([1], I64)})
    x, wide = np.array([[1], [2]], F), np.ones((2, 3), F)
    yes, no = np.array(True), np.array(False)
    module = both(proto, [{"c": yes, "x": x, "z": wide}, {"c": no, "x": wide, "z": x}])
    assert module.main.constraints == []
    with build(module) as artifact:
        for flag, inputs, rule in ((yes, (wide, x), "a == 1"), (no, (x, wide), "b == 1")):
            call = {"c": flag, "x": inputs[0], "z": inputs[1]}
            for run in (artifact.run, lambda x: run_module(module, x)):
                with pytest.raises(ShapeConstraintError, match=rule) as caught:
                    run(call)
                assert "squeeze" in str(caught.value) and f"{rule[0]} = 3" in str(caught.value)
            code, message = _from_c(artifact, tmp_path, call)
            assert code == 6 and f"the constraint {rule} (from" in message, message


def _from_c(artifact: Artifact, folder: Path, call: Mapping[str, Array]) -> tuple[int, str]:
    """The code and the message of a call through the C interface."""
    path = folder / "m.cuvilpkg"
    artifact.save(path)
    library = CModel(bytes(open_package(path).library), folder)
    assert library.create() == 0, library.status.text
    inputs = [tensor(call[spec.name]) for spec in artifact.inputs]
    code = library.run(inputs, [tensor(np.zeros(2, F))])
    return code, library.status.text


def test_without_a_condition_what_the_body_says_of_it_is_ignored() -> None:
    """The table in the operator's documentation; onnxruntime stops after the third trip."""
    nodes = [node("Less", ["i", "two"], ["c2"]), node("Add", ["v", "one"], ["v2"])]
    inside = body(nodes, [*STEP, info("v")], [info("c2", BOOL), info("v2")])
    loop = node("Loop", ["m", "", "x"], ["y"], body=inside)
    constants = {"two": np.array(2, I64), "one": np.array(1, F)}
    proto = model([loop], {"m": (INT64, ()), "x": (FLOAT, ())}, ["y"], constants)
    for trips in (10, 2, 0):
        given = {"m": np.array(trips, I64), "x": np.array(0, F)}
        assert run_module(capture_onnx(proto), given)[0] == trips
