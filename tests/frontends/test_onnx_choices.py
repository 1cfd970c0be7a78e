"""Branches of other ranks, of which the rest of the model fits one."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper

from cuvil.errors import InvalidModelError, ShapeConstraintError
from cuvil.frontends.onnx import capture_onnx
from cuvil.frontends.onnx.choices import Choices, with_choices
from cuvil.reference.interpreter import run_module
from tests.frontends.onnx_models import FLOAT, model, node

I64 = np.int64


def _model(count: int, wanted: int) -> ModelProto:
    """``count`` times: where x has more than four elements it gets a dimension more, else not; what
    comes next takes the rank ``wanted`` alone."""
    constants = {"four": np.array(4, I64), "zero": np.array([0], I64)}
    constants["weights"] = np.ones((3,) * wanted, np.float32)
    nodes = [node("Shape", ["x"], ["rows"], start=0, end=1), node("Size", ["x"], ["size"])]
    nodes.append(node("Greater", ["size", "four"], ["many"]))
    totals = []
    for i in range(count):
        out = helper.make_tensor_value_info("r", FLOAT, None)
        then = helper.make_graph([node("Unsqueeze", ["x", "zero"], ["r"])], "t", [], [out])
        other = helper.make_graph([node("Neg", ["x"], ["r"])], "e", [], [out])
        nodes += [
            node("If", ["many"], [f"v{i}"], then_branch=then, else_branch=other),
            node("Concat", [f"v{i}", "weights"], [f"c{i}"], axis=0),
            node("ReduceSum", [f"c{i}"], [f"s{i}"], keepdims=0),
        ]
        totals.append(f"s{i}")
    nodes.append(node("Sum", totals, ["y"]))
    return model(nodes, {"x": (FLOAT, ("n",))}, ["y"], constants)


@pytest.mark.parametrize("count", [1, 3])
def test_the_branch_that_the_rest_fits_is_compiled(count: int) -> None:
    module = capture_onnx(_model(count, 1))
    x = np.array([1, 2, 3, 5], np.float32)
    np.testing.assert_allclose(run_module(module, {"x": x})[0], count * (3 - x.sum()))
    with pytest.raises(ShapeConstraintError, match="its branches differ: output 0 has rank 2"):
        run_module(module, {"x": np.ones(5, np.float32)})


def test_where_the_rest_fits_none_the_first_fault_is_told() -> None:
    with pytest.raises(InvalidModelError, match="concat needs operands of one rank"):
        capture_onnx(_model(2, 3))


def _tried(good: list[bool]) -> list[list[bool]]:
    """The choices tried until they are good, where the first branch is the usual one."""
    tried: list[list[bool]] = []

    def capture(choices: Choices) -> bool:
        tried.append([choices.take(str(i), True) for i in range(len(good))])
        if tried[-1] != good:
            raise InvalidModelError("not these")
        return True

    assert with_choices(capture)
    return tried


def test_every_combination_is_tried_the_last_choice_first() -> None:
    both = [True, False]
    assert _tried([False, False]) == [[a, b] for a in both for b in both]
    assert _tried([True, True, False]) == [[True, True, True], [True, True, False]]


def test_not_too_many_are_tried() -> None:
    with pytest.raises(InvalidModelError, match="not these"):
        _tried([False] * 5)
