"""What `cuvil compile` says where no inputs could be made that the model takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.cli.conftest import Call
from tests.frontends.onnx_models import INT64, model, node


def test_nothing_was_verified(cuvil_cli: Call, tmp_path: Path) -> None:
    nodes = [node("Add", ["i", "k"], ["j"]), node("Gather", ["w", "j"], ["y"])]
    constants = {"k": np.int64(100), "w": np.ones(4, np.float32)}  # nothing is at 100
    path = tmp_path / "never.onnx"
    onnx.save(model(nodes, {"i": (INT64, (3,))}, ["y"], constants), path)
    ran = cuvil_cli("compile", str(path), "-o", str(tmp_path / "never.cuvilpkg"))
    assert ran.code == 0 and "; not verified: no inputs" in ran.out, ran.out
