"""Small models of every architecture: compiled once, right at every size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InputError
from cuvil.runtime.artifact import Artifact
from tests.models.judge import Exact, assert_alive, assert_close, check_library, run
from tests.models.small import MODELS, Small
from tools import zoo

ROOT = Path(__file__).resolve().parent.parent.parent

# Sizes of zero that the models' own code does not take, and BERT's number of positions.
ALLOWED = ("batch >= 1", "seq >= 1", "height >= 1", "width >= 1", "seq <= 512", "steps >= 1")


def compile_small(case: Small, model: torch.nn.Module) -> Artifact:
    """Compiled with its symbolic dims, not verified."""
    examples = {k: torch.from_numpy(v) for k, v in case.inputs(*case.sizes[0]).items()}
    return cuvil.compile(
        model, example_inputs=examples, dynamic_dims=case.dynamic, verify=False, threads=2
    )


@pytest.mark.parametrize("name", list(MODELS))
def test_every_size_is_right(name: str, tmp_path: Path) -> None:
    case = MODELS[name]
    model = case.model()
    exact = Exact(model)
    with compile_small(case, model) as artifact:
        for constraint in artifact.manifest.signature.constraints:
            assert constraint.text in ALLOWED, constraint.text
        for sizes in (*case.sizes, case.sizes[0]):
            inputs = case.inputs(*sizes)
            want = exact(inputs)
            assert_alive(want, f"{name} {sizes}")
            assert_close(run(artifact, inputs), want, f"{name} {sizes}")
        check_library(artifact, tmp_path)


def test_a_call_gives_what_the_model_gives() -> None:
    case = MODELS["bert"]
    model = case.model()
    with compile_small(case, model) as artifact, torch.no_grad():
        inputs = {k: torch.from_numpy(v) for k, v in case.inputs(2, 5).items()}
        got, want = artifact(**inputs), model(**inputs)
        torch.testing.assert_close(got.last_hidden_state, want.last_hidden_state)
        torch.testing.assert_close(got.pooler_output, want.pooler_output)


def test_a_sequence_longer_than_the_positions_is_refused() -> None:
    case = MODELS["gpt2"]
    with compile_small(case, case.model()) as artifact:
        with pytest.raises(InputError, match="index 64 in a dimension of size 64"):
            artifact.run(case.inputs(1, 65))
        assert_close(run(artifact, case.inputs(1, 64)), Exact(case.model())(case.inputs(1, 64)), "")


def test_minilm_with_its_own_weights(tmp_path: Path) -> None:
    entry = zoo.find("minilm")
    model = entry.make(tmp_path)
    examples = {k: torch.from_numpy(v) for k, v in entry.inputs({"batch": 2, "seq": 9}).items()}
    exact = Exact(model)
    artifact = cuvil.compile(
        model, example_inputs=examples, dynamic_dims=entry.dynamic, verify=False
    )
    with artifact:
        for batch, seq in ((1, 1), (2, 17), (3, 64), (1, 128)):
            inputs = entry.inputs({"batch": batch, "seq": seq})
            assert_close(run(artifact, inputs), exact(inputs), f"minilm {batch}, {seq}")
        check_library(artifact, tmp_path)


def _texts(name: str) -> str:
    case = MODELS[name]
    examples = {k: torch.from_numpy(v) for k, v in case.inputs(*case.sizes[0]).items()}
    return cuvil.dump_ir(
        case.model(), "cxx", example_inputs=examples, dynamic_dims=case.dynamic
    )


_PRINT = """
import sys
from tests.models.test_torch_small import _texts
for name in sys.argv[1:]:
    sys.stdout.write(_texts(name))
"""


def test_the_same_model_gives_the_same_text_in_every_process() -> None:
    names = ["bert", "resnet", "lstm"]
    here = os.environ.get("PYTHONHASHSEED", "random")
    other = "1" if here == "random" else str((int(here) + 1) % 2**32)
    environment = {**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", _PRINT, *names],
        capture_output=True, text=True, env=environment, cwd=ROOT, check=True,
    )  # fmt: skip
    assert done.stdout == "".join(_texts(name) for name in names)


def test_the_judge_rejects_what_is_wrong() -> None:
    want = np.array([1.0, -4.0], np.float32)
    for wrong in (want + 1e-4, np.array([1.0, np.nan], np.float32), want[:1], want.astype(int)):
        with pytest.raises(AssertionError):
            assert_close([wrong], [want], "")
    assert assert_close([want + np.float32(2e-5)], [want], "") > 0
    with pytest.raises(AssertionError):
        assert_alive([np.ones(3)], "")
