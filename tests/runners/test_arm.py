"""One library for all 64-bit ARM: every variant, under emulated CPUs that run it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import ArtifactError
from cuvil.package.format import open_package
from cuvil.runners.built import Built
from cuvil.runners.emulated import Emulator
from cuvil.target.registry import TARGETS
from tests.runners.machines import bytes_product, emulates, mixed, needs, products

pytestmark = needs("qemu-aarch64")
TARGET = TARGETS["aarch64-linux-gnu"]
# qemu's CPU, and what is best there of a library with products of bytes or of bf16.
CPUS = {
    "cortex-a53": "neon",
    "cortex-a72": "neon",
    "neoverse-n1": "neon_dot",
    "max,sve=off": "neon_bf16",
    "max,sve-default-vector-length=16": "neon_bf16",
    "max,sve-default-vector-length=32": "sve256",
    "max,sve-default-vector-length=64": "sve512",
    "max,sve-default-vector-length=128": "neon_bf16",
    "a64fx": "sve512",
    "neoverse-v1": "sve256",
    "neoverse-n2": "neon_bf16",
    "cortex-a710": "neon_bf16",
}
KNOWN = {cpu: best for cpu, best in CPUS.items() if emulates("qemu-aarch64", cpu)}


def _built(model: object, x: np.ndarray, **options: object) -> Built:
    given = (torch.from_numpy(x),) if isinstance(model, torch.nn.Module) else None
    made = cuvil.compile(model, given, target=TARGET.name, verify=False, **options)
    assert isinstance(made, Built)
    return made


def _on(cpu: str, built: Built, x: np.ndarray) -> tuple[str, np.ndarray]:
    name = built.inputs[0].name
    variant, outputs = Emulator("qemu-aarch64", TARGET, cpu).run_as(built.package, {name: x})
    (got,) = outputs.values()
    return variant, got


@pytest.mark.parametrize("cpu", CPUS)
def test_floats_on_each_cpu(cpu: str) -> None:
    if cpu not in KNOWN:
        pytest.skip(f"this qemu-aarch64 doesn't know {cpu}")
    model, x, want = mixed()
    variant, got = _on(cpu, _built(model, x), x)
    wanted = CPUS[cpu]
    assert variant == ("neon" if wanted.startswith("neon") else wanted)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("signed", [False, True])
def test_bytes_on_each_cpu(signed: bool) -> None:
    model, x, want = bytes_product(signed)
    built = _built(model, x)
    for cpu, wanted in KNOWN.items():
        variant, got = _on(cpu, built, x)
        assert variant == wanted
        np.testing.assert_array_equal(got, want, err_msg=cpu)


@pytest.mark.slow
def test_bf16_on_each_cpu() -> None:
    model, x, want = products()
    built = _built(model, x, precision="bf16")
    for cpu, wanted in KNOWN.items():
        variant, got = _on(cpu, built, x)
        assert variant == wanted.replace("neon_dot", "neon")
        np.testing.assert_allclose(got, want, atol=0.02, err_msg=cpu)


def test_compiling_verifies_under_the_emulator(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(20, 33), torch.nn.GELU(), torch.nn.Linear(33, 5))
    x = torch.randn(3, 20)
    built = cuvil.compile(model, (x,), target=TARGET.name, dynamic_dims=["batch"])
    np.testing.assert_allclose(
        built(x.numpy()), model(x).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    (path,) = built.save(tmp_path / "net.cuvilpkg")
    with pytest.raises(ArtifactError, match="the package is for aarch64-linux-gnu; this machine"):
        cuvil.load(path)
    extra = open_package(path).manifest.extra
    assert extra["min_kernel"] == "3.7"
    assert [v["name"] for v in extra["variants"]] == ["sve512", "sve256", "neon"]
