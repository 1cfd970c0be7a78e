"""The models of the zoo at their full size, against PyTorch in double precision."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

import cuvil
from tests.models.judge import Exact, assert_alive, assert_close, check_library, run
from tools import zoo


@pytest.mark.slow
@pytest.mark.parametrize("name", [entry.name for entry in zoo.TORCH])
def test_full_model(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = zoo.find(name)
    model = entry.make(tmp_path)
    examples = {k: torch.from_numpy(v) for k, v in entry.inputs(entry.sizes[0]).items()}
    begin = time.perf_counter()
    artifact = cuvil.compile(
        model, example_inputs=examples, dynamic_dims=entry.dynamic or None, verify=False,
        cache=False, threads=2,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    exact = Exact(model)
    worst = 0.0
    with artifact:
        for sizes in entry.sizes:
            inputs = entry.inputs(sizes)
            want = exact(inputs)
            assert_alive(want, f"{name} {sizes}")
            worst = max(worst, assert_close(run(artifact, inputs), want, f"{name} {sizes}"))
        size = check_library(artifact, tmp_path)
    with capsys.disabled():
        print(
            f"\n{name}: compiled in {seconds:.1f} s, library {size / 1e3:.0f} kB, "
            f"largest error {worst:.1e} of scale"
        )
