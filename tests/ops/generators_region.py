"""Calls of pooling over regions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from tests.ops.values import FLOATS, Array, Case, Rng, case, plain

# Regions inside, across and beyond a 9 x 7 image, empty ones, reversed ones, and some at halves.
_BOXES = np.array(
    [
        (0, 0, 6, 8), (1.5, 2.5, 4.5, 6.5), (-3, -2, 2, 3), (4, 5, 20, 30), (50, 50, 60, 60),
        (3, 3, 3, 3), (5, 6, 2, 1), (-0.5, 0.5, 1.25, 2.75), (0.25, 0.75, 6.99, 8.01),
        (np.nan, 0, 1, 1), (0, 0, np.inf, 2), (-100, -100, 100, 100),
    ]
)  # fmt: skip


def _image(rng: Rng, dtype: str, wild: bool) -> Array:
    x = plain(rng, (2, 3, 9, 7), dtype)
    if wild:
        x[0, 1, 4, 3] = np.nan
        x[1, 2, 0, :] = np.inf
    return x


def _roi_align(rng: Rng) -> Iterator[Case]:
    for dtype, mode, half, ratio in product(FLOATS, ("avg", "max"), (False, True), (0, 2)):
        height, width = (int(k) for k in rng.integers(1, 4, 2))
        yield case(
            _image(rng, dtype, bool(rng.integers(2))), _BOXES.astype(dtype),
            rng.integers(0, 2, len(_BOXES)).astype(rng.choice(["int64", "int32"])),
            height=height, width=width, sampling_ratio=ratio, scale=float(rng.choice([1.0, 0.5])),
            half_pixel=half, mode=mode,
        )  # fmt: skip
    for shape, count in (((1, 2, 1, 1), 2), ((2, 0, 3, 3), 1), ((1, 1, 5, 5), 0)):
        yield case(
            plain(rng, shape, "float32"), _BOXES[:count].astype("float32"),
            np.zeros(count, np.int64), height=2, width=2, sampling_ratio=0, scale=1.0,
            half_pixel=True, mode="avg",
        )  # fmt: skip


def _roi_max_pool(rng: Rng) -> Iterator[Case]:
    for dtype, size in product(FLOATS, ((1, 1), (2, 3), (7, 7))):
        numbers = rng.integers(0, 2, (len(_BOXES), 1))
        rois = np.concatenate([numbers, _BOXES], 1).astype(dtype)
        yield case(
            _image(rng, dtype, bool(rng.integers(2))), rois, height=size[0], width=size[1],
            scale=float(rng.choice([1.0, 0.5])),
        )  # fmt: skip


GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "roi_align": _roi_align,
    "roi_max_pool": _roi_max_pool,
}
