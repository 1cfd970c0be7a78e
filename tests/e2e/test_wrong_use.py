"""Wrong arguments of the API: each an error of the right kind, with what to do."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch

import cuvil
from cuvil.errors import ArtifactError, InputError
from tests.frontends.onnx_models import FLOAT, model, node


def test_load_wants_a_path() -> None:
    with pytest.raises(InputError, match="path is None"):
        cuvil.load(None)  # type: ignore[arg-type]


def test_an_artifact_is_saved_not_pickled(transformer_package: Path) -> None:
    with cuvil.load(transformer_package) as artifact:
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(ArtifactError, match="can't be pickled") as caught:
                attempt(artifact)
            assert "save it" in caught.value.hint


def test_threads_of_the_environment_are_used(
    transformer_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUVIL_THREADS", "1")
    with cuvil.load(transformer_package) as artifact:
        assert artifact.threads == 1
    monkeypatch.setenv("CUVIL_THREADS", "abc")
    with pytest.raises(InputError, match="CUVIL_THREADS is 'abc'"):
        cuvil.load(transformer_package)


def test_bounds_of_a_dim_are_checked() -> None:
    with pytest.raises(InputError, match="need 0 <= min <= max"):
        cuvil.Dim("n", min=9, max=3)
    with pytest.raises(InputError, match="needs a name"):
        cuvil.Dim("batch size")


def test_a_name_in_dynamic_dims_that_is_none() -> None:
    with pytest.raises(InputError, match="batch size"):
        cuvil.compile(torch.nn.Linear(3, 2), (torch.ones(2, 3),), dynamic_dims=["batch size"])


def test_a_dim_may_be_called_like_a_keyword() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["lambda", 3])}, ["y"])
    artifact = cuvil.compile(proto, threads=1)
    assert artifact.inputs[0].shape[1] == 3
    assert cuvil.dump_ir(proto, "captured")
