"""Wrong arguments of the API: each an error of the right kind, with what to do."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import ArtifactError, InputError, ShapeConstraintError
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


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ("n >= 2", "constraints is 'n >= 2'"),
        (7, "constraints is 7"),
        (["n >="], "cannot read the dimension expression 'n >=': it is not a comparison"),
        (["n"], "a constraint is one comparison"),
        (["1 < n < 4"], "a constraint is one comparison"),
        (["mod(n, 0) == 0"], "it divides by zero"),
        ([3], "3 is no constraint"),
    ],
)
def test_constraints_that_are_none(constraints: Any, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        cuvil.compile(
            torch.nn.Linear(3, 2), (torch.ones(2, 3),), dynamic_dims=["n"], constraints=constraints
        )
    assert caught.value.hint


@pytest.mark.parametrize("text", ["1", "2 *", "n + ", "4 // 2"])
def test_a_text_for_a_dim_that_is_none(text: str) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["k", 3])}, ["y"])
    for source, dims, how in (
        (torch.nn.ReLU(), {"input": {0: text}}, {"example_inputs": (torch.ones(2, 3),)}),
        (torch.nn.ReLU(), None, {"input_spec": [("x", "f32", (text, 3))]}),
        (proto, {"x": {0: text}}, {}),
        (proto, None, {"input_spec": [("x", "f32", (text, 3))]}),
    ):
        with pytest.raises(InputError, match=re.escape(text.strip())) as caught:
            cuvil.compile(source, dynamic_dims=dims, **how)
        assert caught.value.hint


def test_dims_of_an_onnx_model_by_expressions() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["k", "m"])}, ["y"])
    dims = {"x": {0: "n", 1: "2 * n"}}
    compiled = cuvil.compile(proto, dynamic_dims=dims, threads=1, verify=False)
    x = np.linspace(-1, 1, 18, dtype=np.float32).reshape(3, 6)
    assert np.array_equal(compiled(x), np.maximum(x, 0))
    with pytest.raises(ShapeConstraintError, match="2 \\* n"):
        compiled(x[:, :5])


def test_an_example_against_a_constraint_is_told(caplog: pytest.LogCaptureFixture) -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["n", 3])}, ["y"])
    for source, dims in ((torch.nn.ReLU(), ["n"]), (proto, None)):
        for rows, told in ((4, 0), (3, 1)):
            caplog.clear()
            cuvil.compile(
                source, (torch.ones(rows, 3),), dynamic_dims=dims, constraints=["n % 2 == 0"],
                threads=1, cache=False,
            )  # fmt: skip
            said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
            assert len(said) == told
            assert all("refuse the example" in s and "n % 2 == 0" in s for s in said)
