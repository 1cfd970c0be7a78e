"""Every operator case of the onnx package: right, interpreted and compiled, or listed with a reason
in docs/onnx_cases.json, from which docs/onnx_operators.md is written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tests.frontends.onnx_models import compare
from tools import onnx_operators
from tools.onnx_cases import node_cases, outcomes

SHARDS = 4
STALE = "run: python -m tools.onnx_operators (and look at what it changes)"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_cases_are_right_or_listed(shard: int, tmp_path: Path) -> None:
    cases = node_cases()[shard::SHARDS]
    found = onnx_operators.stored(outcomes(cases, tmp_path))
    names = {case.name for case in cases}
    stored = json.loads(onnx_operators.DATA.read_text(encoding="utf-8"))
    listed = {name: entry for name, entry in stored.items() if name in names}
    assert found == listed, STALE
    wrong = {n: e[1] for n, e in listed.items() if e[1].startswith(("interpreted", "compiled"))}
    assert not wrong, wrong


def test_the_list_holds_no_other_cases() -> None:
    stored = json.loads(onnx_operators.DATA.read_text(encoding="utf-8"))
    assert stored.keys() <= {case.name for case in node_cases()}
    assert len(node_cases()) >= 1884
    assert onnx_operators.main(["--check"]) == 0, STALE


def test_a_wrong_result_is_seen() -> None:
    """What a case expects is changed in one element: neither side may be called right."""
    case = next(c for c in node_cases() if c.name == "test_add")
    right = case.outputs[0]
    off = right.copy()
    off.reshape(-1)[7] += 0.01
    for bad in ([off], [right.astype(np.float64)], [right[None]], []):
        assert dataclasses.replace(case, outputs=bad).problem([right])
    assert not case.problem([right])


def test_a_wrong_result_is_named(tmp_path: Path) -> None:
    case = next(c for c in node_cases() if c.name == "test_add")
    off = dataclasses.replace(case, outputs=[case.outputs[0] + 1])
    good, bad = outcomes([case, off], tmp_path)
    assert not good.fault and bad.fault.startswith("interpreted: Not equal")


def test_draws_are_judged_by_what_they_can_give() -> None:
    case = next(c for c in node_cases() if c.name == "test_training_dropout_mask")
    x = next(iter(case.inputs.values()))
    assert not case.problem(case.outputs)
    assert case.problem([x, case.outputs[1]])
    assert case.problem([case.outputs[0], ~case.outputs[1]])
    assert case.problem([case.outputs[0].astype(np.float64), case.outputs[1]])


def test_comparing_with_onnxruntime_sees_differences() -> None:
    """The comparison that other tests of the frontend use."""
    a = np.ones((2, 2), np.float32)
    b = a.copy()
    b[1, 1] += 0.01
    with pytest.raises(AssertionError):
        compare([a], [b], 1e-3)
    with pytest.raises(AssertionError):
        compare([a], [a.astype(np.float64)], 1e-3)
    with pytest.raises(AssertionError):
        compare([a], [a[None]], 1e-3)
    with pytest.raises(AssertionError):
        compare([np.array(["a", "b"])], [np.array(["a", "c"], dtype=object)], 1e-3)
