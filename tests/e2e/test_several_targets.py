"""One package for several targets: built, loaded where it fits, saved in the forms it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import cuvil
from cuvil.api.request import CompileRequest
from cuvil.api.several import ALL, SeveralCompiler, compiler_for
from cuvil.errors import ArtifactError, InputError, TargetError, VerificationError
from cuvil.package.bundle import held_packages
from cuvil.package.format import Package, open_package
from cuvil.package.manifest import Manifest
from cuvil.runners import built, registry
from cuvil.runners.base import Runner
from cuvil.runners.built import Built
from cuvil.runtime import loader
from cuvil.runtime.loader import best_target
from cuvil.target.registry import TARGETS, find_target, general_targets

MODEL = torch.nn.Linear(3, 2)
EXAMPLE = (torch.ones(2, 3),)
WEIGHT, BIAS = (p.detach().numpy() for p in (MODEL.weight, MODEL.bias))
X = np.arange(12, dtype=np.float32).reshape(4, 3)
WANTED = X @ WEIGHT.T + BIAS


def _linear(package: Package, inputs: Mapping[str, Any]) -> dict[str, Any]:
    (x,) = inputs.values()
    return {package.manifest.outputs[0].name: x @ WEIGHT.T + BIAS}


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Runner:
    """A runner for ARM libraries, in place of all there are."""
    runner = Runner("fake", lambda: None, _linear)
    monkeypatch.setattr(registry, "RUNNERS", {("library", "aarch64"): runner})
    return runner


def _several(*targets: str, **options: Any) -> SeveralCompiler:
    request = CompileRequest(MODEL, EXAMPLE, dynamic_dims=["batch"], **options)
    made = compiler_for(request, ALL if targets == (ALL,) else targets)
    assert isinstance(made, SeveralCompiler)
    return made


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package for this machine and for ARM."""
    place = tmp_path_factory.mktemp("several") / "both.cuvilpkg"
    made = cuvil.compile(
        MODEL, EXAMPLE, dynamic_dims=["batch"], target=["aarch64", "native"], verify=False
    )
    np.testing.assert_allclose(made(X), WANTED, rtol=1e-6)
    made.save(place)
    return place


def test_what_fits_is_loaded(both: Path) -> None:
    loaded = cuvil.load(both)
    np.testing.assert_allclose(loaded(X), WANTED, rtol=1e-6)
    assert loaded.manifest.target == find_target("native").triple


def test_a_loaded_package_saves_the_whole(both: Path, tmp_path: Path) -> None:
    loaded = cuvil.load(both)
    loaded.save(tmp_path / "copy.cuvilpkg")
    assert (tmp_path / "copy.cuvilpkg").read_bytes() == both.read_bytes()
    loaded.save(tmp_path / "net.so")
    held = held_packages(open_package(both))
    assert (tmp_path / "net.so").read_bytes() == held["native"].library


def test_what_fits_nowhere_says_what_it_holds(
    both: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader.platform, "machine", lambda: "riscv64")
    with pytest.raises(ArtifactError, match="is for aarch64, native; this machine runs none"):
        cuvil.load(both)


def test_each_is_verified(emulated: Runner) -> None:
    made = _several("native", "aarch64", cache=False).run()
    np.testing.assert_allclose(made(X), WANTED, rtol=1e-6)
    wrong = Runner("fake", lambda: None, lambda p, i: {k: v + 1 for k, v in _linear(p, i).items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "RUNNERS", {("library", "aarch64"): wrong})
        with pytest.raises(VerificationError, match="disagrees"):
            _several("native", "aarch64", cache=False).run()


def test_nothing_for_this_process_runs_in_its_runner(emulated: Runner, tmp_path: Path) -> None:
    made = _several("aarch64").run()
    assert isinstance(made, Built) and made.runner is emulated
    np.testing.assert_allclose(made(X), WANTED, rtol=1e-6)
    made.save(tmp_path / "arm.cuvilpkg")
    assert list(held_packages(open_package(tmp_path / "arm.cuvilpkg"))) == ["aarch64"]


def test_all_available_leaves_out_what_cannot_be_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = ("x86_64_v2", "aarch64")
    monkeypatch.setattr("cuvil.api.several.general_targets", lambda: few)
    lacking = Runner("fake", lambda: "the program fake is not installed", _linear)
    monkeypatch.setattr(registry, "RUNNERS", {("library", "aarch64"): lacking})
    compiler = _several(ALL)
    made = compiler.run()
    np.testing.assert_allclose(made(X), WANTED, rtol=1e-6)
    assert compiler.held == ("x86_64_v2",)
    assert made.left_out == compiler.left_out == {"aarch64": "the program fake is not installed"}
    unchecked = _several(ALL, verify=False)
    unchecked.run()
    assert unchecked.held == few and not unchecked.left_out
    monkeypatch.setattr("cuvil.api.several.general_targets", lambda: few[1:])
    with pytest.raises(TargetError, match="aarch64: the program fake is not installed"):
        _several(ALL).run()


def test_all_available_leaves_out_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("x86_64_v2", "aarch64")
    monkeypatch.setattr("cuvil.api.several.general_targets", lambda: few)
    wrong = Runner("fake", lambda: None, lambda p, i: {k: v + 1 for k, v in _linear(p, i).items()})
    monkeypatch.setattr(registry, "RUNNERS", {("library", "aarch64"): wrong})
    made = _several(ALL, cache=False).run()
    np.testing.assert_allclose(made(X), WANTED, rtol=1e-6)
    assert list(made.left_out) == ["aarch64"] and "disagrees" in made.left_out["aarch64"]
    monkeypatch.setattr("cuvil.api.several.general_targets", lambda: few[1:])
    with pytest.raises(VerificationError, match="disagrees"):
        _several(ALL, cache=False).run()


def test_progress_says_which_target(emulated: Runner) -> None:
    told: list[str] = []
    _several("native", "aarch64", profile=lambda stage, seconds: told.append(stage)).run()
    assert {"native: load", "aarch64: load", "package"} <= set(told)


def test_a_budget_is_for_those_that_take_one() -> None:
    batch = {"input": {0: cuvil.Dim("batch", min=1, max=8)}}
    names = ["native", "c"]
    made = cuvil.compile(
        MODEL, EXAMPLE, dynamic_dims=batch, target=names, options={"flash": "64k"}, verify=False
    )
    np.testing.assert_allclose(made(X), WANTED, rtol=1e-6)
    with pytest.raises(TargetError, match="flash"):
        cuvil.compile(MODEL, EXAMPLE, target=names, options={"flash": 8}, verify=False)
    with pytest.raises(InputError, match="no budget of memory"):
        cuvil.compile(MODEL, EXAMPLE, target=names[:1], options={"flash": 8}, verify=False)


def test_named_targets_are_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "RUNNERS", {})
    with pytest.raises(TargetError, match="aarch64"):
        _several("native", "aarch64").run()


def test_wrong_words() -> None:
    with pytest.raises(InputError, match="no target is given"):
        cuvil.compile(MODEL, EXAMPLE, target=[])
    with pytest.raises(TargetError, match="there is no target 'z80'"):
        cuvil.compile(MODEL, EXAMPLE, target=["native", "z80"])
    with pytest.raises(InputError, match="of one target"):
        cuvil.compile(MODEL, EXAMPLE, target=["native"], profile="x.html")


def test_the_most_features_come_first(both: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signature = open_package(both).manifest.signature

    def manifest(name: str) -> Manifest:
        target = find_target(name)
        return Manifest("m", signature, target.triple, cpu_features=target.cpu_features)

    manifests = {name: manifest(name) for name in ("x86_64_v2", "x86_64_v4", "x86_64_v3")}
    v3 = {"variants": [{"cpu_features": find_target("x86_64_v3").cpu_features}]}
    many = {"many": replace(manifests["x86_64_v2"], cpu_features=(), extra=v3)}
    monkeypatch.setattr(loader.platform, "machine", lambda: "x86_64")
    for level in ("x86_64_v2", "x86_64_v3", "x86_64_v4"):
        flags = frozenset(find_target(level).cpu_features)
        monkeypatch.setattr(loader, "cpu_flags", lambda flags=flags: flags)
        assert best_target(manifests) == level
        assert best_target(many | manifests) == ("many" if level == "x86_64_v3" else level)
    monkeypatch.setattr(loader.platform, "machine", lambda: "aarch64")
    assert best_target(manifests) is None


def test_one_of_each_kind_and_architecture_is_all() -> None:
    names = general_targets()
    kinds = [(TARGETS[name].kind, TARGETS[name].arch) for name in names]
    assert set(kinds) == {(t.kind, t.arch) for t in TARGETS.values()}
    assert len(set(kinds)) == len(kinds)
    assert "x86_64-linux-gnu" in names and "x86_64_v3" not in names


def test_what_no_process_loads_can_be_loaded_saved_and_called(tmp_path: Path) -> None:
    options = {"dynamic_dims": {"input": {0: cuvil.Dim("batch", min=1, max=8)}}, "verify": False}
    made = cuvil.compile(MODEL, EXAMPLE, target=["c", "onnx"], **options)
    for name, saved in (("both", made), ("one", cuvil.compile(MODEL, EXAMPLE, target="c"))):
        saved.save(tmp_path / f"{name}.cuvilpkg")
        loaded = cuvil.load(tmp_path / f"{name}.cuvilpkg")
        assert isinstance(loaded, Built)
        x = X if name == "both" else X[:2]
        np.testing.assert_allclose(loaded(x), x @ WEIGHT.T + BIAS, rtol=1e-6)
        loaded.save(tmp_path / f"{name}.c")
    cuvil.load(tmp_path / "both.cuvilpkg").save(tmp_path / "net.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"))
    with pytest.raises(ArtifactError, match="is for c, onnx: no process loads that"):
        loader.load(tmp_path / "both.cuvilpkg")
    damaged = bytearray((tmp_path / "both.cuvilpkg").read_bytes())
    damaged[200] ^= 1
    (tmp_path / "both.cuvilpkg").write_bytes(damaged)
    with pytest.raises(ArtifactError, match="altered or damaged"):
        cuvil.load(tmp_path / "both.cuvilpkg")


def test_another_machines_library_runs_where_there_is_a_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "arm.cuvilpkg"
    cuvil.compile(MODEL, EXAMPLE, dynamic_dims=["batch"], target="aarch64", verify=False).save(path)
    fake = Runner("fake", lambda: None, _linear)
    monkeypatch.setattr(built, "RUNNERS", {("library", "aarch64"): fake})
    np.testing.assert_allclose(built.load_or_run(path)(X), WANTED, rtol=1e-6)
    for lacking in ({}, {("library", "aarch64"): Runner("fake", lambda: "no fake", _linear)}):
        monkeypatch.setattr(built, "RUNNERS", lacking)
        with pytest.raises(ArtifactError, match="the package is for aarch64"):
            built.load_or_run(path)
