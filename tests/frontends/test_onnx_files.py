"""ONNX models told by their bytes, whatever the file is called."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import cuvil
from cuvil.frontends.onnx_files import holds_onnx
from tests.frontends.onnx_models import one


@pytest.mark.parametrize("name", ["model.bin", "model.pt", "model", "model.ort.model"])
def test_a_model_of_any_name_is_compiled(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(one("Relu", ("n",), 17).SerializeToString())
    x = np.array([-1, 2], np.float32)
    np.testing.assert_array_equal(cuvil.compile(path)(x), [0, 2])


def test_what_is_no_model_is_not_taken_for_one(tmp_path: Path) -> None:
    whole = one("Relu", ("n",), 17, alpha=0.5, doc="x" * 300).SerializeToString()
    cases = {
        "cut": whole[:-1],
        "more": whole + b"\0",
        "no graph": onnx.ModelProto(ir_version=8, producer_name="p").SerializeToString(),
        "empty": b"",
        "pickle": pickle.dumps({"weight": [1.0]}),
        "old pickle": pickle.dumps({"weight": [1.0]}, 0),
        "text": b"a plain text, of some length",
    }
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        assert not holds_onnx(tmp_path / name), name
    for old in (True, False):
        torch.save({"w": torch.ones(2)}, tmp_path / "w.bin", _use_new_zipfile_serialization=not old)
        assert not holds_onnx(tmp_path / "w.bin")
        with pytest.raises(cuvil.InvalidModelError, match="may hold a pickle"):
            cuvil.compile(tmp_path / "w.bin")
    (tmp_path / "whole").write_bytes(whole)
    assert holds_onnx(tmp_path / "whole") and not holds_onnx(tmp_path / "none")
