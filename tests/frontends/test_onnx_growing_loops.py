"""Loops whose values have another size in each trip, compiled, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

from cuvil.errors import CuvilError, UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from tests.codegen.compile_graph import build
from tests.frontends.onnx_models import FLOAT, INT64, model, node
from tests.frontends.test_onnx_loops import BOOL, I64, STEP, F, body, both, info, names

M = {"m": (INT64, ()), "go": (BOOL, ())}


def calls(*counts: int, **more: Any) -> list[dict[str, Any]]:
    return [{"m": np.array(m, I64), "go": np.array(True), **more} for m in counts]


def loop_of(
    nodes: Sequence[Any], carried: Sequence[str], after: Sequence[str], results: Sequence[str],
    init: Sequence[str], rows: Sequence[str] = (), going: str = "",
) -> Any:  # fmt: skip
    names = [f"i_{after[0]}", f"c_{after[0]}"]
    same = [] if going else [node("Identity", [names[1]], [f"go_{after[0]}"])]
    inside = body(
        [*same, *nodes], [info(names[0], INT64, ()), info(names[1], BOOL, ()), *map(info, carried)],
        [info(going or f"go_{after[0]}", BOOL), *(info(v) for v in (*after, *rows))],
    )  # fmt: skip
    return node("Loop", ["m", "go", *init], list(results), body=inside)


def test_a_tensor_that_grows() -> None:
    """Its size after the loop is known as an expression of the number of trips."""
    loop = loop_of(
        [node("Concat", ["v", "x"], ["w"], axis=0), node("ReduceSum", ["v"], ["s"], keepdims=0)],
        ["v"], ["w"], ["y", "sums"], ["x"], ["s"],
    )  # fmt: skip
    nodes = [loop, node("Mul", ["y", "y"], ["z"])]
    proto = model(nodes, {**M, "x": (FLOAT, ("n", 3))}, ["z", "sums"])
    x = np.arange(6, dtype=F).reshape(2, 3)
    module = both(proto, [*calls(1, 2, 7, 40, x=x), *calls(3, x=x[:1])])
    assert {"cuvil.keep", "cuvil.kept", "scf.for"} <= names(module)


def test_a_tensor_that_data_ends() -> None:
    """A decoder: it appends what it finds, reads all of it, and ends on what it found."""
    nodes = [
        node("ReduceSum", ["v"], ["s"], keepdims=1),
        node("Mod", ["s", "nine"], ["t"], fmod=1),
        node("Add", ["t", "one"], ["u"]),
        node("Concat", ["v", "u"], ["w"], axis=0),
        node("Less", ["s", "limit"], ["c3"]),
        node("Squeeze", ["c3"], ["c2x"]),
    ]
    loop = loop_of(nodes, ["v"], ["w"], ["y", "rows"], ["x"], ["u"], going="c2x")
    constants = {"nine": np.array([9], F), "one": np.array([1], F), "limit": np.array([60], F)}
    for results in (["y"], ["y", "rows"]):
        proto = model([loop], {**M, "x": (FLOAT, ("n",))}, results, constants)
        module = both(proto, calls(1, 5, 100, x=np.array([1, 2, 3], F)))
        assert "scf.while" in names(module)


def test_a_tensor_that_shrinks_and_one_that_data_sizes() -> None:
    nodes = [
        node("Slice", ["v", "from1", "far", "axis0"], ["w"]),
        node("Greater", ["k", "zero"], ["p"]),
        node("Compress", ["k", "p"], ["few"], axis=0),
        node("Sub", ["few", "one"], ["k2"]),
    ]
    loop = loop_of(nodes, ["v", "k"], ["w", "k2"], ["y", "few"], ["x", "x"])
    constants = {
        "from1": np.array([1], I64), "far": np.array([1 << 40], I64), "axis0": np.array([0], I64),
        "zero": np.array(0, F), "one": np.array(1, F),
    }  # fmt: skip
    proto = model([loop], {**M, "x": (FLOAT, ("n",))}, ["y", "few"], constants)
    x = np.array([5, 1, 3, 2, 9, -1], F)
    both(proto, calls(1, 3, 5, 6, x=x))


def test_loops_in_loops() -> None:
    inner = loop_of([node("Concat", ["v", "x"], ["w"], axis=0)], ["v"], ["w"], ["g"], ["u"])
    outer = loop_of([inner, node("Neg", ["g"], ["h"])], ["u"], ["h"], ["y"], ["x"])
    proto = model([outer], {**M, "x": (FLOAT, ("n",))}, ["y"])
    both(proto, calls(1, 2, 4, x=np.array([1, -2], F)))


def test_no_trip_at_all() -> None:
    loop = loop_of([node("Concat", ["v", "x"], ["w"], axis=0)], ["v"], ["w"], ["y"], ["x"])
    proto = model([loop], {**M, "x": (FLOAT, ("n",))}, ["y"])
    module = both(proto, calls(0, 1, x=np.array([1, -2], F)))
    stop = {**calls(5, x=np.array([1, -2], F))[0], "go": np.array(False)}
    both(proto, [stop])
    assert "cuvil.keep" in names(module)


def sequence_loop(nodes: Sequence[Any], ends: Sequence[Any], **shapes: Any) -> ModelProto:
    """A sequence that goes through a loop, empty at first."""
    begin = node("SequenceEmpty", [], ["s0"], dtype=FLOAT)
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    inside = helper.make_graph(
        [node("Identity", ["c"], ["c2"]), *nodes], "body",
        [*STEP, helper.make_value_info("s", kind)],
        [info("c2", BOOL), helper.make_value_info("t", kind)],
    )  # fmt: skip
    loop = node("Loop", ["m", "go", "s0"], ["list"], body=inside)
    constants = {"zero": np.array(0, I64), "minus": np.array(-1, I64)}
    results = [ends[i].output[0] for i in range(len(ends))]
    proto = model([begin, loop, *ends], {**M, **shapes}, results, constants)
    for value in proto.graph.output:
        value.type.tensor_type.elem_type = INT64 if value.name == "count" else FLOAT
    return proto


def test_a_sequence_that_grows() -> None:
    nodes = [
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Add", ["x", "f"], ["item"]),
        node("SequenceInsert", ["s", "item"], ["t"]),
    ]
    ends = [
        node("ConcatFromSequence", ["list"], ["stacked"], axis=1, new_axis=1),
        node("ConcatFromSequence", ["list"], ["joined"], axis=-1),
        node("SequenceLength", ["list"], ["count"]),
        node("SequenceAt", ["list", "minus"], ["last"]),
    ]
    proto = sequence_loop(nodes, ends, x=(FLOAT, ("n", 2)))
    x = np.arange(6, dtype=F).reshape(3, 2)
    both(proto, calls(1, 2, 9, 30, x=x))


def test_sequences_in_branches_and_places_that_data_tells() -> None:
    """Every other trip inserts, at a place that goes back and forth; then one tensor is erased."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))

    def branch(nodes: Sequence[Any], name: str) -> Any:
        return helper.make_graph(list(nodes), name, [], [helper.make_value_info(name, kind)])

    insert = [
        node("SequenceLength", ["s"], ["n"]),
        node("Mod", ["i", "three"], ["k0"]),
        node("Min", ["k0", "n"], ["k1"]),
        node("Neg", ["n"], ["k2"]),
        node("Less", ["i", "four"], ["early"]),
        node("Where", ["early", "k1", "k2"], ["at"]),
        node("SequenceInsert", ["s", "item", "at"], ["t1"]),
    ]
    nodes = [
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Add", ["x", "f"], ["item"]),
        node("Mod", ["i", "three"], ["r"]),
        node("Greater", ["r", "zero"], ["odd"]),
        node(
            "If", ["odd"], ["t"], then_branch=branch(insert, "t1"),
            else_branch=branch([node("Identity", ["s"], ["t2"])], "t2"),
        ),
    ]  # fmt: skip
    ends = [
        node("SequenceErase", ["list", "p"], ["less"]),
        node("ConcatFromSequence", ["less"], ["y"], axis=0, new_axis=1),
    ]
    proto = sequence_loop(nodes, ends, x=(FLOAT, (2,)), p=(INT64, ()))
    proto.graph.output.pop(0)
    more = {"three": np.array(3, I64), "four": np.array(4, I64)}
    proto.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in more.items())
    x = np.array([1, -1], F)
    runs = [{**c, "p": np.array(p, I64)} for c in calls(4, 12, x=x) for p in (-2, 0, 1)]
    module = both(proto, runs)
    with build(module) as artifact, pytest.raises(CuvilError, match="index"):
        artifact.run({**runs[0], "p": np.array(2, I64)})


def test_places_in_sequences_of_known_length() -> None:
    nodes = [
        node("SequenceConstruct", ["a", "b", "c"], ["s"]),
        node("SequenceInsert", ["s", "d", "p"], ["t"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
        node("SequenceErase", ["s", "q"], ["u"]),
        node("ConcatFromSequence", ["u"], ["z"], axis=1, new_axis=1),
    ]
    places = {"p": (INT64, ()), "q": (INT64, ())}
    proto = model(nodes, {**dict.fromkeys("abcd", (FLOAT, ("n", 2))), **places}, ["y", "z"])
    tensors = {k: np.full((3, 2), i, F) for i, k in enumerate("abcd")}
    pairs = [(0, 0), (3, 2), (-3, -3), (-1, -1), (1, 1)]
    runs = [{**tensors, "p": np.array(p, I64), "q": np.array(q, I64)} for p, q in pairs]
    module = both(proto, runs)
    with build(module) as artifact:
        for p, q in ((4, 0), (-4, 0), (0, 3), (0, -4)):
            with pytest.raises(CuvilError, match="index"):
                artifact.run({**tensors, "p": np.array(p, I64), "q": np.array(q, I64)})


def test_splits_of_symbolic_sizes() -> None:
    """Into single elements, with and without their dimension; into pairs, where all are pairs."""
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0),
        node("ConcatFromSequence", ["s"], ["y"], axis=0),
        node("SplitToSequence", ["x"], ["t"], axis=1),
        node("SequenceAt", ["t", "p"], ["z"]),
        node("SplitToSequence", ["x", "two"], ["u"], axis=0),
        node("ConcatFromSequence", ["u"], ["w"], axis=1),
    ]
    shapes = {"x": (FLOAT, ("n", "k")), "p": (INT64, ())}
    proto = model(nodes, shapes, ["y", "z", "w"], {"two": np.array(2, I64)})
    rng = np.random.default_rng(3)
    runs = [
        {"x": rng.standard_normal((n, k)).astype(F), "p": np.array(-1, I64)}
        for n, k in ((2, 1), (4, 3), (6, 5))
    ]
    module = both(proto, runs)
    with build(module) as artifact, pytest.raises(CuvilError, match="mod|equal|% 2"):
        artifact.run({"x": np.ones((3, 2), F), "p": np.array(0, I64)})


def test_what_stays_refused() -> None:
    unlike = sequence_loop(
        [node("Concat", ["x", "x"], ["b"], axis=0), node("SequenceInsert", ["s", "b"], ["t1"]),
         node("SequenceInsert", ["t1", "x"], ["t"])],
        [node("ConcatFromSequence", ["list"], ["y"], axis=0)], x=(FLOAT, (2,)),
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError, match=r"run-time length holds .*\[4\].*\[2\]"):
        capture_onnx(unlike)
    output = sequence_loop([node("SequenceInsert", ["s", "x"], ["t"])], [], x=(FLOAT, (2,)))
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    output.graph.output.append(helper.make_value_info("list", kind))
    with pytest.raises(UnsupportedOpError, match="output list: how many tensors the sequence has"):
        capture_onnx(output)


def test_sequence_map_over_a_sequence_that_grew() -> None:
    part = helper.make_graph(
        [node("Mul", ["v", "v"], ["q"])], "square", [info("v")], [info("q")]
    )  # fmt: skip
    ends = [
        node("SequenceMap", ["list"], ["squares"], body=part),
        node("ConcatFromSequence", ["squares"], ["y"], axis=0),
    ]
    nodes = [node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["x", "f"], ["item"]),
             node("SequenceInsert", ["s", "item"], ["t"])]  # fmt: skip
    proto = sequence_loop(nodes, ends, x=(FLOAT, (2,)))
    proto.graph.output.pop(0)
    both(proto, calls(1, 4, x=np.array([1, -3], F)))


def test_caches_that_grow_and_repeated_calls() -> None:
    """A sequence of two tensors, each longer after each trip; calls of all sizes in turn."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    nodes = [
        node("Identity", ["c"], ["c2"]),
        node("SequenceAt", ["s", "zero"], ["k"]),
        node("SequenceAt", ["s", "minus"], ["v"]),
        node("Concat", ["k", "x"], ["k2"], axis=0),
        node("Concat", ["x", "v"], ["v2"], axis=0),
        node("SequenceConstruct", ["k2", "v2"], ["t"]),
    ]
    inside = helper.make_graph(
        nodes, "body", [*STEP, helper.make_value_info("s", kind)],
        [info("c2", BOOL), helper.make_value_info("t", kind)],
    )  # fmt: skip
    proto = model(
        [
            node("SequenceConstruct", ["x", "y"], ["s0"]),
            node("Loop", ["m", "go", "s0"], ["list"], body=inside),
            node("SequenceAt", ["list", "zero"], ["a"]),
            node("SequenceAt", ["list", "minus"], ["b"]),
        ],
        {**M, "x": (FLOAT, ("n",)), "y": (FLOAT, ("k",))}, ["a", "b"],
        {"zero": np.array(0, I64), "minus": np.array(-1, I64)},
    )  # fmt: skip
    x, y = np.array([1, 2], F), np.array([7], F)
    both(proto, calls(3, 200, 1, 50, 0, 120, x=x, y=y))
