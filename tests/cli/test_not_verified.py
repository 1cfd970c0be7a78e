"""What `cuvil compile` says where no inputs could be made that the model takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from cuvil.verify.report import OutputError, Report
from tests.cli.conftest import Call
from tests.frontends.onnx_models import INT64, model, node


def test_nothing_was_verified(cuvil_cli: Call, tmp_path: Path) -> None:
    nodes = [node("Add", ["i", "k"], ["j"]), node("Gather", ["w", "j"], ["y"])]
    constants = {"k": np.int64(100), "w": np.ones(4, np.float32)}  # nothing is at 100
    path = tmp_path / "never.onnx"
    onnx.save(model(nodes, {"i": (INT64, (3,))}, ["y"], constants), path)
    command = ("compile", str(path), "-o", str(tmp_path / "never.cuvilpkg"))
    for _ in range(2):  # the second is from the cache
        ran = cuvil_cli(*command)
        assert ran.code == 0 and "; not verified: no inputs" in ran.out, ran.out
        found = cuvil_cli(*command, "--json").json["verified"]
        assert not found["passed"] and not found["compared"] and not found["cases"]
        assert "raises" in found["skipped"][0]
    ran = cuvil_cli("verify", str(path))
    assert ran.code == 2 and "nothing was compared" in ran.err, (ran.code, ran.err)


def test_a_report_of_nothing_has_not_passed() -> None:
    nothing = Report(skipped=("the model itself raises",))
    assert not nothing.passed and not nothing.wrong and not nothing.as_dict()["passed"]
    assert str(nothing).startswith("not verified: no inputs") and "passed" not in str(nothing)
    bad = OutputError("y", (1,), 1.0, 1.0, 1, (0,))
    for report in (Report((bad,)), Report((bad,), cases=("x[1]",))):
        assert not report.passed and report.wrong and str(report).startswith("FAILED")
    assert Report(cases=("x[1]",)).passed
