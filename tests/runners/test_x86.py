"""One library for all x86-64: every variant, natively and under emulated CPUs of each kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import ArtifactError
from cuvil.package.format import Package, open_package
from cuvil.runners import built, registry
from cuvil.runners.base import Runner
from cuvil.runners.emulated import Emulator
from cuvil.runtime.cpu import cpu_flags
from cuvil.target.registry import TARGETS
from tests.runners.machines import attends, bytes_product, mixed, needs, products

TARGET = TARGETS["x86_64-linux-gnu"]
Made = tuple[torch.nn.Module, np.ndarray, np.ndarray]  # a model, its input, its output in f64
# qemu's CPU and what is best of an f32 library, and of one with products of bytes, there.
CPUS = {
    "qemu64": "sse2",
    "core2duo": "sse2",
    "Nehalem": "sse2",
    "Haswell": "avx2",
    "max": "avx2",
}


def _saved(folder: Path, model: object, x: np.ndarray, **options: object) -> Path:
    given = (torch.from_numpy(x),) if isinstance(model, torch.nn.Module) else None
    made = cuvil.compile(model, given, target=TARGET.name, verify=False, **options)
    (path,) = made.save(folder / "net.cuvilpkg")
    return Path(path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, x, _ = mixed()
    return _saved(tmp_path_factory.mktemp("x86"), model, x)


def _runnable(package: Package) -> list[str]:
    flags = cpu_flags()
    return [
        v["name"] for v in package.manifest.extra["variants"] if set(v["cpu_features"]) <= flags
    ]


def test_every_variant_gives_the_same(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, x, want = mixed()
    names = _runnable(open_package(plain))
    assert names[-1] == "sse2"
    for name in names:
        monkeypatch.setenv("CUVIL_VARIANT", name)
        loaded = cuvil.load(plain)
        assert loaded._model.variant == name
        np.testing.assert_allclose(loaded(x), want, rtol=1e-4, atol=1e-6)
    monkeypatch.setenv("CUVIL_VARIANT", "")
    assert cuvil.load(plain)._model.variant == names[0]
    monkeypatch.setenv("CUVIL_VARIANT", "avx1024")
    with pytest.raises(ArtifactError, match="no code 'avx1024'; it has 'avx512"):
        cuvil.load(plain)
    ready = Runner("fake", lambda: None, lambda package, inputs: {})
    monkeypatch.setattr(registry, "RUNNERS", {("library", "x86_64"): ready})
    monkeypatch.setattr(built, "RUNNERS", registry.RUNNERS)
    with pytest.raises(ArtifactError, match="no code 'avx1024'"):
        built.load_or_run(plain)


@pytest.mark.parametrize("signed", [False, True])
def test_variants_for_bytes(
    signed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, want = bytes_product(signed)
    path = _saved(tmp_path, model, x)
    package = open_package(path)
    assert {"avx512_vnni", "avx2_vnni"} <= {v["name"] for v in package.manifest.extra["variants"]}
    for name in _runnable(package):
        monkeypatch.setenv("CUVIL_VARIANT", name)
        np.testing.assert_array_equal(cuvil.load(path)(x), want, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("made", [products, attends])
def test_variants_for_bf16(
    made: Callable[[], Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, want = made()
    path = _saved(tmp_path, model, x, precision="bf16")
    names = _runnable(open_package(path))
    for name in names:
        monkeypatch.setenv("CUVIL_VARIANT", name)
        np.testing.assert_allclose(cuvil.load(path)(x), want, atol=0.02, err_msg=name)


@needs("qemu-x86_64")
@pytest.mark.parametrize("cpu", CPUS)
def test_each_cpu_runs_what_it_can(plain: Path, cpu: str) -> None:
    _, x, want = mixed()
    package = open_package(plain)
    variant, outputs = Emulator("qemu-x86_64", TARGET, cpu).run_as(package, {"x": x})
    assert variant == CPUS[cpu]
    (got,) = outputs.values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@needs("qemu-x86_64")
def test_a_cpu_without_the_feature_is_refused(plain: Path, tmp_path: Path) -> None:
    _, x, _ = mixed()
    package = open_package(plain)
    with pytest.raises(ArtifactError, match="this CPU lacks fma, which the model was compiled for"):
        Emulator("qemu-x86_64", TARGET, "Nehalem", "avx2").run(package, {"x": x})
    model, _, _ = mixed()
    single = cuvil.compile(model, (torch.from_numpy(x),), target="x86_64_v3", verify=False)
    (path,) = single.save(tmp_path / "v3.cuvilpkg")
    with pytest.raises(ArtifactError, match="this CPU lacks fma"):
        Emulator("qemu-x86_64", TARGET, "Nehalem").run(open_package(path), {"x": x})
