"""Two symbolic sizes that broadcast: they must be equal, which is said when compiling, by the
artifact, and in a call."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from typer.testing import CliRunner

import cuvil
from cuvil.cli.main import app
from cuvil.frontends.onnx import capture_onnx
from cuvil.sym.constraint import ONE_NAME
from cuvil.sym.dim import Dim
from tests.frontends.onnx_models import FLOAT, model, node

BOOL = 9


def _proto(op: str, mask: tuple[Any, ...] = ("mb", 1)) -> ModelProto:
    x = {"x": (FLOAT, ("b", "k")), "m": (FLOAT, mask)}
    if op == "Where":
        condition = node("Where", ["c", "x", "m"], ["y"], name="pick")
        return model([condition], {"c": (BOOL, (1, 1)), **x}, ["y"])
    if op == "MatMul":
        return model([node("MatMul", ["x3", "m3"], ["y"], name="pick")],
                     {"x3": (FLOAT, ("b", 2, 3)), "m3": (FLOAT, ("mb", 3, 4))}, ["y"])  # fmt: skip
    # twice: the pair is said once, for the first
    nodes = [node(op, ["x", "m"], ["z"], name="pick"), node(op, ["z", "m"], ["y"], name="again")]
    return model(nodes, x, ["y"])


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [m for m in caplog.messages if "must hold in every call" in m]


@pytest.mark.parametrize("op", ["Add", "Where", "MatMul"])
def test_a_pair_is_warned_of_once_with_its_place(op: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cuvil"):
        module = capture_onnx(_proto(op))
    (said,) = _said(caplog)
    assert said.endswith(ONE_NAME) and f"pick ({op})" in said
    assert {"b", "mb"} == set(said.split(" must hold")[0].split(" == "))
    assert [str(c) for c in module.main.constraints] == [said.split(" must hold")[0]]


@pytest.mark.parametrize(
    ("mask", "more"),
    [
        (("mb", 1), {"input_shapes": {"m": (1, 1)}}),
        (("b", 1), {}),
        (("mb", 1), {"constraints": ["mb == b"]}),
        (("mb", 1), {"dynamic": {"x": {0: Dim("b", min=2)}, "m": {0: Dim("mb", min=2)}}}),
    ],
)
def test_what_is_settled_is_not_warned_of(
    mask: tuple[Any, ...], more: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "cuvil"):
        capture_onnx(_proto("Add", mask), **more)
    assert _said(caplog) == []


def test_the_call_and_inspect_say_it_too(tmp_path: Path) -> None:
    compiled = cuvil.compile(_proto("Add"))
    x, m = np.ones((2, 3), np.float32), np.array([[5], [7]], np.float32)
    np.testing.assert_array_equal(compiled(x, m), x + m + m)
    with pytest.raises(cuvil.ShapeConstraintError, match=r"b == mb .*pick \(Add\)") as caught:
        compiled(x, m[:1])
    assert caught.value.hint == ONE_NAME
    with pytest.raises(cuvil.ShapeConstraintError) as caught:
        compiled(np.ones((4, 3), np.float32), m)
    assert caught.value.hint != ONE_NAME  # no 1 is there to be broadcast
    path = tmp_path / "m.cuvilpkg"
    compiled.save(path)
    shown = CliRunner().invoke(app, ["inspect", str(path)]).output
    assert "b == mb  (add: broadcasting along dimension 0, pick (Add))" in shown
    fixed = cuvil.compile(_proto("Add"), input_spec=[("m", None, (1, 1))])
    np.testing.assert_array_equal(fixed(x, m[:1]), x + 10)
