"""Known models on emulated ARM and x86-64 CPUs: as the library for this machine has them."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.package.format import open_package
from cuvil.runners.built import Built
from cuvil.runners.emulated import Emulator
from cuvil.target.registry import TARGETS
from tests.models.judge import assert_close
from tests.runners.machines import emulates, needs
from tools import zoo

ROOT = Path(__file__).resolve().parents[2]
MODELS: Mapping[str, Mapping[str, int]] = {
    "mobilenet-v2": {"batch": 1},
    "minilm": {"batch": 2, "seq": 9},
    "ppocr-rec": {"n": 1, "h": 48, "w": 64},
    "silero-vad": {},
    "lstm": {"batch": 1},
}
ARM_CPUS = (
    "cortex-a53", "neoverse-v1", "max,sve-default-vector-length=32",
    "max,sve-default-vector-length=64",
)  # fmt: skip
X86_CPUS = ("qemu64", "Haswell")


def compiled_model(name: str, target: str, folder: Path) -> Any:
    entry = zoo.find(name)
    models = Path(os.environ.get("CUVIL_MODELS", ROOT / ".models"))
    model, inputs = entry.make(models if entry.onnx else folder), entry.inputs(MODELS[name])
    if isinstance(model, torch.nn.Module):
        examples = {key: torch.from_numpy(value) for key, value in inputs.items()}
        made = cuvil.compile(
            model, example_inputs=examples, dynamic_dims=entry.dynamic or None, target=target,
            verify=False,
        )  # fmt: skip
    else:
        made = cuvil.compile(model, target=target, verify=False)
    return made, inputs


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other machine is emulated")
@needs("qemu-aarch64")
@needs("qemu-x86_64")
@pytest.mark.parametrize("name", MODELS)
def test_known_models(name: str, tmp_path: Path) -> None:
    native, inputs = compiled_model(name, "native", tmp_path)
    want = {key: np.array(value) for key, value in native.run(inputs).items()}
    arm, _ = compiled_model(name, "aarch64-linux-gnu", tmp_path)
    assert isinstance(arm, Built)
    x86, _ = compiled_model(name, "x86_64-linux-gnu", tmp_path)
    (path,) = x86.save(tmp_path / "x86.cuvilpkg")
    for program, target, package, cpus in (
        ("qemu-aarch64", "aarch64-linux-gnu", arm.package, ARM_CPUS),
        ("qemu-x86_64", "x86_64-linux-gnu", open_package(path), X86_CPUS),
    ):
        for cpu in (c for c in cpus if emulates(program, c)):
            got = Emulator(program, TARGETS[target], cpu).run(package, inputs)
            found = [got[key] for key in want]
            assert_close(found, list(want.values()), f"{name} on {cpu}")
