"""Branches, loops and sequences, decided at capture."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from cuvil.frontends.onnx import capture_onnx
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
