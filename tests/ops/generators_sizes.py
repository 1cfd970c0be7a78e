"""Calls of the operators whose sizes depend on data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cuvil.sym.expr import symbol
from tests.ops.values import DTYPES, Case, Rng, case, tied

_LENGTHS = (0, 1, 7, 8, 9, 64, 1000)


def _sizes(rng: Rng) -> Iterator[Case]:
    """Names are used once: the calls of a batch share their symbols."""
    for number, count in enumerate((1, 2, 5, 1)):
        names = tuple(symbol(f"late{number}_{i}") for i in range(count))
        values = rng.integers(0, 1 << 31, count)
        yield case(values.reshape(()) if number == 3 else values, binds=names)


def _positions(rng: Rng) -> Iterator[Case]:
    for length in _LENGTHS:
        for share in (0.0, 0.02, 0.5, 1.0):
            mask = rng.random(length) < share
            for size in {0, int(mask.sum()) // 2, int(mask.sum()), length}:
                yield case(mask, size=size)


def _row_order(rng: Rng) -> Iterator[Case]:
    for dtype in DTYPES:
        if dtype != "float16":
            for shape in ((0, 3), (1, 1), (7, 0), (40, 1), (40, 2), (90, 5)):
                yield case(tied(rng, shape, dtype))
    yield case(np.array([[np.nan, 1], [2, np.nan], [np.nan, 0], [-0.0, 1], [0.0, 0]]))


def _nms(rng: Rng) -> Iterator[Case]:
    for batches, kinds, count, limit, most in (
        (1, 1, 6, 3, 3), (2, 3, 20, 20, 5), (1, 2, 0, 0, 4), (1, 1, 1, 1, 0), (2, 1, 60, 60, 100),
    ):  # fmt: skip
        for center in (False, True):
            boxes = rng.integers(0, 12, (batches, count, 4)).astype(np.float32)
            scores = rng.integers(0, 6, (batches, kinds, count)).astype(np.float32)
            for low in (None, 2.0):
                numbers = (np.int64(most), np.float32(0.4), np.float32(low or 0))
                yield case(boxes, scores, *numbers, limit=limit, center=center, has_low=bool(low))
    corner = rng.uniform(0, 9, (2, 150, 2)).astype(np.float32)
    many = np.concatenate([corner, corner + rng.uniform(0, 2, corner.shape).astype(np.float32)], 2)
    many[:, ::13, 2], many[:, ::17, 1], many[:, ::19, 3] = np.nan, -np.inf, np.inf
    scores = rng.integers(0, 50, (2, 2, 150)).astype(np.float32)
    for share in (0.0, 0.3, 0.9):
        yield case(many, scores, np.int64(150), np.float32(share), np.float32(0), limit=150)
    odd = np.array([[[0, 0, 2, 2], [0, 0, 2, 2], [1, 1, 1, 1], [np.nan, 0, 2, 2]]], np.float32)
    ranks = np.array([[[np.nan, 1, 1, -np.inf]]], np.float32)
    yield case(odd, ranks, np.int64(9), np.float32(0.5), np.float32(0), limit=4)


GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "sizes": _sizes,
    "positions": _positions,
    "row_order": _row_order,
    "nms": _nms,
}
