"""Damage anywhere in a compiled package is an ArtifactError, never a crash or another result."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import cuvil
from cuvil.errors import ArtifactError

FLIPS, CUTS = 250, 60


@pytest.mark.parametrize("name", ["transformer", "convnet"])
def test_flips_and_cuts_are_found(packages: dict[str, Path], name: str, tmp_path: Path) -> None:
    whole = packages[name].read_bytes()
    rng = random.Random(name)
    places = sorted({*range(0, 128, 5), len(whole) - 1, *rng.sample(range(len(whole)), FLIPS)})
    for index, place in enumerate(places):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        _refused(tmp_path / f"flip{index % 2}.cuvilpkg", bytes(damaged), f"byte {place}")
    for size in sorted({0, 1, 7, 127, 128, len(whole) - 1, *rng.sample(range(len(whole)), CUTS)}):
        _refused(tmp_path / "cut.cuvilpkg", whole[:size], f"the first {size} bytes")
        if size:
            zeros = whole[:size] + bytes(len(whole) - size)
            if zeros != whole:
                _refused(tmp_path / "zeros.cuvilpkg", zeros, f"zeros from {size}")
    _refused(tmp_path / "long.cuvilpkg", whole + b"\0", "a byte more")
    (tmp_path / "whole.cuvilpkg").write_bytes(whole)
    cuvil.load(tmp_path / "whole.cuvilpkg").close()


def _refused(path: Path, data: bytes, what: str) -> None:
    path.unlink(missing_ok=True)  # what an earlier load mapped may not be written to
    path.write_bytes(data)
    try:
        cuvil.load(path, 1)
    except ArtifactError as error:
        assert str(path) in str(error), what
    else:
        pytest.fail(f"a package damaged at {what} was loaded")


def test_another_models_weights_are_refused(packages: dict[str, Path], tmp_path: Path) -> None:
    first, second = (packages[n].read_bytes() for n in ("transformer", "convnet"))
    _refused(tmp_path / "mixed.cuvilpkg", first[:4096] + second[4096:], "the weights")


def test_a_package_removed_while_it_is_loaded_keeps_working(
    convnet_package: Path, tmp_path: Path
) -> None:
    path = tmp_path / "m.cuvilpkg"
    path.write_bytes(convnet_package.read_bytes())
    x = np.ones((2, 3, 16, 16), np.float32)
    artifact = cuvil.load(path)
    expected = artifact(x)
    path.unlink()
    np.testing.assert_array_equal(artifact(x), expected)
