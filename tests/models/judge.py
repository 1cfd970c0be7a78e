"""How whole models are judged: error in units of an output's scale, and what a library is."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cuvil.frontends.torch_export.weights import to_numpy
from cuvil.package.format import open_package
from cuvil.runtime.artifact import Artifact
from tests.build.elf import DT_NEEDED, Elf
from tests.frontends.torch_helper import tensors_of

Array = np.ndarray[Any, Any]
BAR = 1e-5
MOST_CODE = 1_000_000


def scaled_error(got: Array, want: Array) -> float:
    """The largest difference over the largest magnitude of ``want``; integers must be equal.

    NaN must meet NaN and infinities their like; AssertionError where shapes or dtypes differ.
    """
    assert got.shape == want.shape, (got.shape, want.shape)
    assert got.dtype.kind == want.dtype.kind, (got.dtype, want.dtype)
    if want.size == 0:
        return 0.0
    if want.dtype.kind in "biu":
        return float(not np.array_equal(got, want))
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    assert np.array_equal(a[~finite], b[~finite], equal_nan=True), "infinities or NaN differ"
    if not finite.any():
        return 0.0
    a, b = a[finite], b[finite]
    return float(np.abs(a - b).max() / max(np.abs(b).max(), np.finfo(np.float32).tiny))


def assert_close(
    got: Sequence[Array], want: Sequence[Array], what: str, bar: float = BAR
) -> float:
    """Every output within ``bar`` of its scale, and not a constant; the worst error."""
    assert len(got) == len(want), what
    worst = 0.0
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        error = scaled_error(np.asarray(a), np.asarray(b))
        assert error <= bar, f"{what}, output {index} {b.shape}: error {error:.2e} of its scale"
        worst = max(worst, error)
    return worst


def assert_alive(outputs: Sequence[Array], what: str) -> None:
    """The first output's values differ, so that comparing them means something."""
    first = np.asarray(outputs[0], np.float64)
    assert first.size < 2 or first.std() > 1e-6 * np.abs(first).max() > 0, what


class Exact:
    """A PyTorch model computed in double precision: PyTorch's own f32 rounding is no error of
    ours."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = copy.deepcopy(model).double().eval()

    def __call__(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Outputs in the order of the output tree, as float64 (or integers)."""
        kwargs = {
            name: torch.from_numpy(value.astype(np.float64) if value.dtype.kind == "f" else value)
            for name, value in inputs.items()
        }
        with torch.no_grad():
            return [to_numpy(t) for t in tensors_of(self.model(**kwargs))]


def run(artifact: Artifact, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs in order."""
    found = artifact.run(dict(inputs))
    return [np.asarray(found[spec.name]) for spec in artifact.outputs]


def check_library(artifact: Artifact, folder: Path) -> int:
    """The library needs no other and its code is small; its bytes."""
    path = folder / "model.cuvilpkg"
    artifact.save(path)
    package = open_package(path)
    library = bytes(package.library)
    package.close()
    assert DT_NEEDED not in Elf(library).tags()
    assert len(library) < MOST_CODE, len(library)
    return len(library)
