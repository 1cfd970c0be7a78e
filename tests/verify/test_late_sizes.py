"""Inputs that decide sizes are made up so that a model takes them and something is left."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

import cuvil
from cuvil.api.manifest import signature_of
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from cuvil.verify.branches import with_loop_sizes
from cuvil.verify.inputs import make_inputs, spread_of_sizes
from cuvil.verify.late_sizes import Trial, deciding_inputs, with_sizes_that_fit
from cuvil.verify.ranges import integer_limits
from tests.frontends.onnx_models import FLOAT, INT64, model, node

I64 = np.int64


def _trials(module: Module, examples: Any = None) -> tuple[list[Trial], list[Trial]]:
    """Those that are random throughout, and those that fit."""
    signature, limits = signature_of(module.main), integer_limits(module)
    rng, known = np.random.default_rng(0), examples or {}
    sizes = spread_of_sizes(signature, known)
    plain = [make_inputs(signature, s, known, rng, limits) for s in sizes]
    return plain, with_sizes_that_fit(module, known, plain)


def _resize(given: str, shape: tuple[Any, ...], mode: str) -> ModelProto:
    kind = FLOAT if given == "scales" else INT64
    inputs = {"x": (FLOAT, shape), given: (kind, (len(shape),))}
    names = ["x", "", *([given] if given == "scales" else ["", given])]
    return model([node("Resize", names, ["y"], mode=mode)], inputs, ["y"], opset=18)


def _slice(shape: tuple[Any, ...], *more: str) -> ModelProto:
    inputs = {"x": (FLOAT, shape), **{n: (INT64, (len(shape),)) for n in ("s", "e", *more)}}
    constants = {} if "a" in more or not more else {"a": np.arange(len(shape))}
    names = ["x", "s", "e", *(["a", "t"] if more else [])]
    return model([node("Slice", names, ["y"])], inputs, ["y"], constants)


def _of_shape(op: str, x: tuple[Any, ...], length: int) -> ModelProto:
    inputs = {"x": (FLOAT, x), "n": (INT64, (length,))}
    return model([node(op, ["x", "n"], ["y"])], inputs, ["y"])


_MODELS = {
    "scales": _resize("scales", ("n", "c", "h", "w"), "linear"),
    "scales fixed": _resize("scales", (1, 3, 8, 8), "cubic"),
    "sizes": _resize("sizes", ("n", "c", "h", "w"), "nearest"),
    "ends": _slice(("n", "m")),
    "steps": _slice((5, 6), "t"),
    "axes": _slice(("n", "m"), "a", "t"),
    "shape": _of_shape("Reshape", ("n", 6), 2),
    "row": _of_shape("Reshape", ("n", 6), 1),
    "repeats": _of_shape("Tile", ("n", 2), 2),
    "wider": _of_shape("Expand", ("n", 3), 2),
}


@pytest.mark.parametrize("name", _MODELS)
def test_every_size_is_verified_with_something_left(name: str) -> None:
    module = capture_onnx(_MODELS[name])
    plain, found = _trials(module)
    taken = [run_module(module, trial) for trial in found]  # none is refused
    for first in plain:
        shape = first["x"].shape
        left = [y.size for t, (y,) in zip(found, taken, strict=True) if t["x"].shape == shape]
        assert len(left) >= 1 and max(left) > 0
    with cuvil.compile(_MODELS[name], cache=False) as artifact:
        report = cuvil.verify(artifact)
        assert report.passed and not report.skipped and len(report.cases) >= len(found)


def test_slices_from_the_end_and_by_negative_steps_are_among_them() -> None:
    found = _trials(capture_onnx(_MODELS["steps"]))[1]
    assert any((t["t"] < 0).all() for t in found) and any((t["t"] > 0).all() for t in found)
    assert any((t["s"] < 0).any() for t in found)


def test_an_example_is_kept_and_other_inputs_are_left_alone() -> None:
    module = capture_onnx(_MODELS["ends"])
    assert deciding_inputs(module) == ["s", "e"]
    examples = {"x": np.ones((3, 4), np.float32), "s": np.array([1, 1]), "e": np.array([3, 3])}
    plain, found = _trials(module, examples)
    assert found == plain and (found[0]["s"] == 1).all()
    assert not deciding_inputs(capture_onnx(model([node("Exp", ["x"], ["y"])],
                                                  {"x": (FLOAT, (3,))}, ["y"])))  # fmt: skip


def test_what_is_never_taken_stays_as_it_was_to_say_why() -> None:
    """A slice of 4 elements to be 9."""
    nodes = [node("Slice", ["x", "s", "e"], ["part"]), node("Reshape", ["part", "k"], ["y"])]
    given = {"x": (FLOAT, (4,)), "s": (INT64, (1,)), "e": (INT64, (1,))}
    proto = model(nodes, given, ["y"], {"k": np.array([9], I64)})
    plain, found = _trials(capture_onnx(proto))
    assert found == plain


def _scan(xs: tuple[Any, ...], ys: tuple[Any, ...]) -> ModelProto:
    inner = [helper.make_tensor_value_info(n, FLOAT, (3,)) for n in ("s", "a", "b")]
    outer = [helper.make_tensor_value_info(n, FLOAT, None) for n in ("t", "r")]
    nodes = [node("Add", ["s", "a"], ["u"]), node("Mul", ["u", "b"], ["t"]),
             node("Identity", ["t"], ["r"])]  # fmt: skip
    body = helper.make_graph(nodes, "body", inner, outer)
    scan = node("Scan", ["s0", "xs", "ys"], ["f", "rows"], body=body, num_scan_inputs=2)
    given = {"s0": (FLOAT, (3,)), "xs": (FLOAT, xs), "ys": (FLOAT, ys)}
    return model([scan], given, ["f", "rows"])


@pytest.mark.parametrize("shapes", [(("n", 3), ("m", 3)), ((None, None), (None, None))])
def test_sizes_that_a_scan_ties_to_each_other_are_made_equal(shapes: Any) -> None:
    with cuvil.compile(_scan(*shapes), cache=False) as artifact:
        report = cuvil.verify(artifact)
        assert report.passed and report.cases and not report.skipped
    module = capture_onnx(_scan(*shapes))
    signature = signature_of(module.main)
    plain = spread_of_sizes(signature, {})
    examples = {n: np.ones((4, 3), np.float32) for n in ("xs", "ys")}
    examples["s0"] = np.ones(3, np.float32)
    own = spread_of_sizes(signature, examples)
    assert with_loop_sizes(module, signature, examples, own)[0] == own[0]
    for sizes in with_loop_sizes(module, signature, {}, plain):
        run_module(module, make_inputs(signature, sizes, {}, np.random.default_rng(0)))


def test_a_draw_that_never_ends_is_left() -> None:
    """A step of 0 makes a loop of 2^63 turns of a range that is written as a loop."""
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Add", ["v", "step"], ["w"]),
         node("Identity", ["v"], ["r"])],
        "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("c", 9, []),
         helper.make_tensor_value_info("v", FLOAT, [])],
        [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("w", FLOAT, []),
         helper.make_tensor_value_info("r", FLOAT, [])],
    )  # fmt: skip
    nodes = [
        node("Sub", ["stop", "start"], ["wide"]), node("Div", ["wide", "step"], ["turns"]),
        node("Ceil", ["turns"], ["whole"]), node("Cast", ["whole"], ["most"], to=INT64),
        node("Loop", ["most", "", "start"], ["last", "y"], body=body),
    ]  # fmt: skip
    inputs = dict.fromkeys(("start", "stop", "step"), (FLOAT, ()))
    module = capture_onnx(model(nodes, inputs, ["y"]))
    begin = time.monotonic()
    _, fitting = _trials(module)
    assert time.monotonic() - begin < 30
    assert any(len(run_module(module, trial)[0]) > 1 for trial in fitting[:2])
