"""cuvil verify --paths: the ways of a branch and a loop, as text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cuvil.verify.path_report import PathReport, PathSite
from tests.cli.conftest import Call
from tests.frontends.onnx_models import FLOAT, INT64, model, node

BOOL = TensorProto.BOOL


def _branch(name: str, op: str) -> Any:
    out = helper.make_tensor_value_info("r", FLOAT, None)
    return helper.make_graph([node(op, ["x"], ["r"])], name, [], [out])


def _branch_and_loop() -> onnx.ModelProto:
    """y = exp(x) if c else -x, then doubled k times."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["v", "v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, ()),
            helper.make_tensor_value_info("go", BOOL, ()),
            helper.make_tensor_value_info("v", FLOAT, (2,)),
        ],
        [
            helper.make_tensor_value_info("on", BOOL, ()),
            helper.make_tensor_value_info("w", FLOAT, (2,)),
        ],
    )
    then, other = _branch("t", "Exp"), _branch("e", "Neg")
    nodes = [
        node("If", ["c"], ["z"], then_branch=then, else_branch=other),
        node("Loop", ["k", "yes", "z"], ["y"], body=body),
    ]
    inputs: dict[str, Any] = {"c": (BOOL, ()), "k": (INT64, ()), "x": (FLOAT, (2,))}
    return model(nodes, inputs, ["y"], {"yes": np.array(True)})


def test_paths_as_text_and_as_json(cuvil_cli: Call, place: Path) -> None:
    onnx.save(_branch_and_loop(), place / "ways.onnx")
    shown = cuvil_cli("verify", "ways.onnx", "--paths")
    assert shown.code == 0
    assert "paths: 100% of the ways that inputs went are reproduced, 100% of all" in shown.out
    ran = cuvil_cli("verify", "ways.onnx", "--paths", "--json")
    assert ran.code == 0
    paths = ran.json["paths"]
    assert paths["passed"] and paths["missed"] == [] and paths["fidelity"] == 1.0
    branch, loop = paths["sites"]
    assert set(branch["ways"]) == {"then", "else"} and min(branch["ways"].values()) > 0
    assert set(loop["ways"]) == {"no trip", "one trip", "many trips"}
    assert branch["different"] == loop["different"] == [] and loop["divergence"] == 0.0


def test_no_paths_unless_asked_for_or_there(cuvil_cli: Call) -> None:
    assert "paths" not in cuvil_cli("verify", "net.onnx", "--json").json
    assert "paths: no branches or loops" in cuvil_cli("verify", "net.onnx", "--paths").out


def test_another_path_is_exit_code_1(cuvil_cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    astray = PathReport((PathSite("if", "node7", {"then": 1, "else": 2}, ["else"]),), 3)
    monkeypatch.setattr("cuvil.api.verification.check_paths", lambda *_: astray)
    shown = cuvil_cli("verify", "net.onnx", "--paths")
    assert shown.code == 1 and "if at node7: else in another number" in shown.out
    ran = cuvil_cli("verify", "net.onnx", "--paths", "--json")
    assert ran.code == 1 and ran.json["passed"] is False
    assert ran.json["paths"]["sites"][0]["different"] == ["else"]
