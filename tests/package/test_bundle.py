"""A package of several: what goes in comes out, equal weights are there once, damage is found."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuvil.errors import ArtifactError
from cuvil.package.bundle import held_packages, write_bundle
from cuvil.package.format import PAGE, Package, open_package, write_package
from tests.package.test_format import manifest

ONE, TWO = (np.random.default_rng(i).integers(0, 256, 5000, np.uint8) for i in range(2))


def _package(folder: Path, name: str, weights: np.ndarray | None = None) -> Package:
    path = folder / f"{name}.cuvilpkg"
    size = 0 if weights is None else weights.size
    segments = [] if weights is None else [(0, weights)]
    write_package(path, manifest(size), name.encode() * 9, segments, {"more": name.encode()})
    return open_package(path)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    held = {
        "a": _package(tmp_path, "a", ONE),
        "b": _package(tmp_path, "b", TWO),
        "none": _package(tmp_path, "none"),
        "c": _package(tmp_path, "c", ONE),
    }
    write_bundle(tmp_path / "all.cuvilpkg", held)
    return tmp_path / "all.cuvilpkg"


def test_what_goes_in_comes_out(bundle: Path) -> None:
    held = held_packages(open_package(bundle))
    assert list(held) == ["a", "b", "none", "c"]
    for name, weights in (("a", ONE), ("b", TWO), ("c", ONE), ("none", ONE[:0])):
        item = held[name]
        assert item.library == name.encode() * 9 and item.parts == {"more": name.encode()}
        np.testing.assert_array_equal(item.weights, weights)
        item.check_weights()
        assert item.manifest.library_sha256 == hashlib.sha256(item.library).hexdigest()
        assert item.weights_address % PAGE == 0


def test_equal_weights_are_there_once(bundle: Path) -> None:
    package = open_package(bundle)
    held = held_packages(package)
    assert held["a"].weights_address == held["c"].weights_address
    assert package.weights.size == 2 * PAGE + ONE.size  # one rounded up to pages, and the other
    package.check_weights()


def test_the_same_packages_give_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.cuvilpkg"
    write_bundle(again, held_packages(open_package(bundle)))
    assert again.read_bytes() == bundle.read_bytes()


def test_an_ordinary_package_holds_none(tmp_path: Path) -> None:
    assert held_packages(_package(tmp_path, "a", ONE)) == {}


BROKEN: dict[str, Any] = {
    "a list of numbers": [1],
    "an unknown part": [{"name": "a", "parts": ["other"], "weights": [0, 5000]}],
    "an unknown name": [{"name": "d", "parts": [], "weights": [0, 0]}],
    "weights beyond the end": [{"name": "a", "parts": [], "weights": [PAGE * 3, 5000]}],
    "weights off a page": [{"name": "a", "parts": [], "weights": [1, 5000]}],
    "weights before the start": [{"name": "a", "parts": [], "weights": [-PAGE, 5000]}],
    "weights of another size": [{"name": "a", "parts": [], "weights": [0, 4999]}],
    "text for places": [{"name": "a", "parts": [], "weights": "ab"}],
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_damaged_list_is_refused(bundle: Path, case: str) -> None:
    package = open_package(bundle)
    extra = {"kind": "bundle", "targets": BROKEN[case]}
    package.manifest = replace(package.manifest, extra=extra)
    with pytest.raises(ArtifactError, match=r"all\.cuvilpkg"):
        held_packages(package)


def test_a_held_library_that_was_exchanged_is_refused(bundle: Path) -> None:
    package = open_package(bundle)
    package.parts["b/library"] = package.parts["a/library"]
    with pytest.raises(ArtifactError, match="the library for b is not the one"):
        held_packages(package)
