"""The plan of memory follows the shapes of each call, and so does what a process holds."""

from __future__ import annotations

import gc
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import ArtifactError
from cuvil.runtime.arena import PATIENCE
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.memory_use import MemoryUse
from tests.e2e.models import MAX_SEQ
from tests.e2e.test_memory import resident


class Chain(torch.nn.Module):
    """Four products in a row: each result is read by the next alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for _ in range(4):
            y = y @ x
        return y


@pytest.fixture(scope="module")
def chain() -> Artifact:
    made = cuvil.compile(
        Chain(), (torch.randn(3, 3),), dynamic_dims={"x": {0: "n", 1: "n"}}, threads=1
    )
    assert isinstance(made, Artifact)
    return made


def test_places_are_used_again(chain: Artifact) -> None:
    """Three results besides the output, of 4 n^2 bytes each, in two places."""
    n = 512
    use = chain.memory({"x": (n, n)})
    assert use.symbols == {"n": n} and not use.late
    assert use.intermediates == 3 * 4 * n * n
    assert use.outputs == 4 * n * n
    assert 2 * 4 * n * n <= use.peak
    assert use.reuse == use.intermediates / use.peak
    assert chain.memory({"x": np.ones((7, 7), np.float32)}).intermediates == 3 * 4 * 49
    assert f"n={n}: peak {use.peak:,} bytes" in str(use)
    assert use.as_dict()["reuse"] == use.reuse


def test_the_arena_goes_back_after_large_shapes(chain: Artifact) -> None:
    """Results stay right, and memory falls to what the small shapes need."""
    large, small = (np.ones((n, n), np.float32) for n in (1500, 9))
    chain(large)
    gc.collect()
    held, before = chain.memory({"x": large.shape}).held, resident()
    assert held >= chain.workspace_bytes({"x": large.shape}) > 1 << 23
    for _ in range(PATIENCE):
        found = chain(small)
    np.testing.assert_array_equal(found, np.full((9, 9), 9.0**4))
    assert chain.memory({"x": small.shape}).held == chain.workspace_bytes({"x": small.shape})
    gc.collect()
    assert before - resident() > held // 2
    np.testing.assert_allclose(chain(large), np.full((1500, 1500), 1500.0**4), rtol=1e-5)


def test_what_was_packed_before_is_refused(transformer_package: Path) -> None:
    """An artifact whose manifest does not say how large its intermediates are."""
    artifact = cuvil.load(transformer_package, 1)
    sizes = {s.name: (2, 5) for s in artifact.inputs}
    assert isinstance(artifact.memory(sizes), MemoryUse)
    rest = {k: v for k, v in artifact.manifest.extra.items() if k != "intermediates"}
    artifact._manifest = replace(artifact.manifest, extra=rest)
    with pytest.raises(ArtifactError, match="how large its intermediates are"):
        artifact.memory(sizes)


@pytest.mark.slow
def test_memory_is_flat_over_thousands_of_random_shapes(transformer_package: Path) -> None:
    """Every call has one of 12,000 shapes; the largest came first."""
    artifact = cuvil.load(transformer_package, 1)
    rng = random.Random(0)

    def calls(count: int) -> None:
        for _ in range(count):
            batch, seq = 1 + int(500 * rng.random() ** 4), rng.randint(1, MAX_SEQ)
            artifact(np.ones((batch, seq), np.int64), np.ones((batch, seq), np.int64))

    artifact(np.ones((501, MAX_SEQ), np.int64), np.ones((501, MAX_SEQ), np.int64))
    calls(1000)
    gc.collect()
    before = resident()
    calls(4000)
    gc.collect()
    assert resident() - before < 16 << 20  # the arena itself may be of another size
