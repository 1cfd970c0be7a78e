"""Memory stays flat over calls of random shapes."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path

import numpy as np
import pytest

import cuvil
from tests.e2e.models import MAX_SEQ, VOCABULARY

_BATCH = 22  # more sizes than an artifact keeps plans for


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _grown(package: Path, calls: int, threads: int) -> int:
    """Bytes that ``calls`` calls add after one call of every size."""
    rng = random.Random(0)
    artifact = cuvil.load(package, threads)
    sizes = [(b, s) for b in range(_BATCH + 1) for s in range(1, MAX_SEQ + 1)]
    inputs = {
        (b, s): (np.full((b, s), s % VOCABULARY, np.int64), np.ones((b, s), np.int64))
        for b, s in sizes
    }
    for size in sizes * 2:
        artifact(*inputs[size])
    gc.collect()
    before = resident()
    for _ in range(calls):
        artifact(*inputs[rng.choice(sizes)])
    gc.collect()
    return resident() - before


@pytest.mark.parametrize("threads", [1, 2])
def test_a_few_thousand_calls_add_nothing(transformer_package: Path, threads: int) -> None:
    assert _grown(transformer_package, 3000, threads) < 1 << 20


@pytest.mark.slow
def test_a_hundred_thousand_calls_add_nothing(transformer_package: Path) -> None:
    assert _grown(transformer_package, 100_000, 1) < 1 << 20


def test_loading_and_closing_adds_nothing(convnet_package: Path) -> None:
    x = np.ones((2, 3, 16, 16), np.float32)

    def rounds(count: int) -> None:
        for _ in range(count):
            with cuvil.load(convnet_package, 1) as artifact:
                artifact(x)

    rounds(30)
    gc.collect()
    before = resident()
    rounds(150)
    gc.collect()
    assert resident() - before < 1 << 20


def test_the_measure_sees_a_leak() -> None:
    before = resident()
    kept = np.ones(1 << 23)  # large enough that no freed memory is taken again
    assert resident() - before > 1 << 24
    del kept
