"""Branches, loops and sequences, decided at capture."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, INT64, check, floats, model, node, retyped

I64 = np.int64


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
    module = check(
        model(nodes, {"x": (FLOAT, ("n", "s", 6))}, ["y"], {"three": np.array(3, I64)}),
        {"x": floats(1, 2, 6)},
    )
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
    assert "scf.if" in [op.name for op in capture_onnx(data).main.walk()]


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


def _optional_model() -> ModelProto:
    """y: the optional input where it is there, else 1 - x."""
    element = helper.make_tensor_type_proto(FLOAT, (2,))
    out = helper.make_tensor_value_info

    def branch(name: str, nodes: list[Any]) -> Any:
        return helper.make_graph(nodes, name, [], [out(name, FLOAT, None)])

    there = branch("t", [node("OptionalGetElement", ["maybe"], ["t"])])
    absent = branch("e", [node("Sub", ["one", "x"], ["e"])])
    nodes = [
        node("OptionalHasElement", ["maybe"], ["has"]),
        node("If", ["has"], ["y"], then_branch=there, else_branch=absent),
    ]
    proto = model(nodes, {"x": (FLOAT, (2,))}, ["y"], {"one": np.array(1, np.float32)}, 18)
    kind = helper.make_optional_type_proto(element)
    proto.graph.input.append(helper.make_value_info("maybe", kind))
    return proto


def test_an_optional_input_is_there_unless_it_is_left_out() -> None:
    x, maybe = floats(2), floats(2, seed=1)
    there = capture_onnx(_optional_model())
    (y,) = run_module(there, {"x": x, "maybe": maybe})
    np.testing.assert_array_equal(y, maybe)
    absent = capture_onnx(_optional_model(), fixed_inputs={"maybe": None})
    assert absent.main.input_names == ["x"]
    np.testing.assert_array_equal(run_module(absent, {"x": x})[0], 1 - x)


@pytest.mark.parametrize("lengths", [None, [3, 1, 0]])
def test_scan_of_opset_8_goes_along_each_entry_of_a_batch(lengths: list[int] | None) -> None:
    def info(name: str) -> Any:
        return helper.make_tensor_value_info(name, FLOAT, (2,))

    body = helper.make_graph(
        [node("Add", ["s", "v"], ["s2"]), node("Mul", ["s2", "s2"], ["row"])],
        "body", [info("s"), info("v")], [info("s2"), info("row")],
    )  # fmt: skip
    names = ["" if lengths is None else "lengths", "init", "x"]
    scan = node("Scan", names, ["last", "rows"], body=body, num_scan_inputs=1, directions=[1])
    constants = {} if lengths is None else {"lengths": np.array(lengths, I64)}
    shapes = {"init": (FLOAT, ("b", 2)), "x": (FLOAT, ("b", "n", 2))}
    module = capture_onnx(model([scan], shapes, ["last", "rows"], constants, 8, ir=4))
    init, x = floats(3, 2), floats(3, 3, 2, seed=1)
    last, rows = run_module(module, {"init": init, "x": x})
    for entry, count in enumerate(lengths or [3, 3, 3]):
        state = init[entry]
        for step in range(count):
            state = state + x[entry, count - 1 - step]
            np.testing.assert_allclose(rows[entry, step], state * state, rtol=1e-6)
        np.testing.assert_allclose(last[entry], state, rtol=1e-6)
        assert not rows[entry, count:].any()


def _loop(nodes: list[Any], inputs: list[str], condition: str, limit: int | None) -> ModelProto:
    """x after a loop whose body turns s into s2, the condition being one of its values."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes, "body",
        [info("i", INT64, ()), info("c", TensorProto.BOOL, ()), info("s", FLOAT, None)],
        [info(condition, TensorProto.BOOL, ()), info("s2", FLOAT, None)],
    )  # fmt: skip
    constants = {"one": np.array(1, np.float32), "no": np.array(False), "yes": np.array(True)}
    if limit is not None:
        constants["limit"] = np.array(limit, I64)
    return model([node("Loop", inputs, ["y"], body=body)], {"x": (FLOAT, (2,))}, ["y"], constants)


@pytest.mark.parametrize(
    ("inputs", "condition"),
    [(["", "", "x"], "no"), (["", "", "x"], "yes"), (["limit", "", "x"], "no"),
     (["", "yes", "x"], "yes")],
)  # fmt: skip
def test_a_loop_that_nothing_ends_is_refused_at_once(inputs: list[str], condition: str) -> None:
    nodes = [node("Add", ["s", "one"], ["s2"]), node("Identity", [condition], ["c2"])]
    proto = _loop(nodes, inputs, "c2", (1 << 63) - 1)
    begin = time.process_time()
    with pytest.raises(UnsupportedOpError, match="nothing ends it"):
        capture_onnx(proto)
    assert time.process_time() - begin < 1


def test_a_loop_of_growing_size() -> None:
    """Written out where its trips are few, else run as a loop."""
    for length, trips in ((3, 40), (100, 6), (100, 900)):
        names = ["s", *(f"v{i}" for i in range(length))]
        nodes = [node("Add", [a, "one"], [b]) for a, b in pairwise(names)]
        nodes.append(node("Concat", [names[-1], "x"], ["s2"], axis=0))
        module = capture_onnx(_loop(nodes, ["limit", "", "x"], "c", trips))
        assert sum(1 for _ in module.main.walk()) < 3000
        if trips > 100:
            continue
        want = x = floats(2)
        for _ in range(trips):
            want = np.concatenate([want + np.float32(length), x])
        (got,) = run_module(module, {"x": x})
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_loop_of_changing_rank_is_written_out_up_to_a_number_of_ops() -> None:
    """[2] and [1, 2] in turns: it can't run as a loop, where a value has one rank."""
    for length, trips, fits in ((3, 40, True), (100, 900, False)):
        names = ["s", *(f"v{i}" for i in range(length))]
        nodes = [node("Add", [a, "one"], [b]) for a, b in pairwise(names)]
        nodes += [
            node("Constant", [], ["shapes"], value_ints=[1, -1]),
            node("Constant", [], ["ends"], value_ints=[2]),
            node("Constant", [], ["unit"], value_ints=[1]),
            node("Shape", [names[-1]], ["shape"]),
            node("Shape", ["shape"], ["rank"]),
            node("Sub", ["rank", "unit"], ["from"]),
            node("Slice", ["shapes", "from", "ends"], ["other"]),
            node("Reshape", [names[-1], "other"], ["s2"]),
        ]
        proto = _loop(nodes, ["limit", "", "x"], "c", trips)
        if not fits:
            with pytest.raises(UnsupportedOpError, match="more than 20000 ops"):
                capture_onnx(proto)
            continue
        x = floats(2)
        (got,) = run_module(capture_onnx(proto), {"x": x})
        want = x + np.float32(length * trips)
        np.testing.assert_allclose(got, want, rtol=1e-5)
