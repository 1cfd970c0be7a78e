"""Calls of special functions and orthogonal polynomials."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tests.ops.generators_maps import shapes_for
from tests.ops.values import FLOATS, Case, Rng, case, hostile, specials


def _error(rng: Rng) -> Iterator[Case]:
    for dtype in FLOATS:
        for shape in shapes_for(dtype):
            yield case(hostile(rng, shape, dtype))
        yield case(specials(dtype))
        yield case(np.linspace(-12, 40, 400).astype(dtype))
        yield case(np.array([1e3, 6e4, -5.9, -26.6, -27.0], np.float64).astype(dtype))


def _zeta(rng: Rng) -> Iterator[Case]:
    for dtype in FLOATS:
        for shape in shapes_for(dtype):
            x = (1 + np.abs(rng.standard_normal(shape)) * 4).astype(dtype)
            yield case(np.asarray(x), np.asarray(rng.uniform(-9, 30, shape)).astype(dtype))
        few = np.array([np.nan, 0.5, 1.0, 2.0, 2.5, 3.0, 7.0], dtype)
        places = np.array([np.nan, 0.0, -0.0, -3.0, -2.5, -0.25, 0.25, 1.0, 30.0], dtype)
        x, q = np.meshgrid(few, places, indexing="ij")
        yield case(x.reshape(-1), q.reshape(-1))


def _polynomial(rng: Rng) -> Iterator[Case]:
    for dtype in FLOATS:
        for shape in shapes_for(dtype):
            x = np.asarray(rng.uniform(-1.2, 1.2, shape)).astype(dtype)
            yield case(x, np.asarray(rng.uniform(-2, 7, shape)).astype(dtype))
        few = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5], dtype)
        degrees = np.array([np.nan, np.inf, -1.0, -0.5, 0.0, 1.0, 2.0, 3.0, 10.0, 11.0], dtype)
        x, n = np.meshgrid(few, degrees, indexing="ij")
        yield case(x.reshape(-1), n.reshape(-1))
    inside = np.linspace(-0.9, 0.9, 60).astype(np.float32)
    yield case(inside, np.full(60, 9, np.float32))


def _gamma(rng: Rng) -> Iterator[Case]:
    for dtype in FLOATS:
        for shape in shapes_for(dtype):
            yield case(hostile(rng, shape, dtype))
        yield case(specials(dtype))
        yield case(np.linspace(-40, 60, 401).astype(dtype))
        yield case(np.linspace(-1, 1, 201).astype(dtype))


def _incomplete(rng: Rng) -> Iterator[Case]:
    few = [0.0, 0.1, 0.9, 1.0, 2.5, 10.0, 29.0, 40.0, 300.0, np.inf, np.nan, -1.0]
    for dtype in FLOATS:
        for shape in shapes_for(dtype):
            yield case(*(np.asarray(rng.uniform(0, 9, shape)).astype(dtype) for _ in range(2)))
        a, x = np.meshgrid(np.array(few, dtype), np.array(few, dtype), indexing="ij")
        yield case(a.reshape(-1), x.reshape(-1))
        near = np.linspace(0.5, 1.5, 50)
        yield case(np.full(50, 200, dtype), (near * 200).astype(dtype))


_POLYNOMIALS = ("chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "hermite_h",
                "hermite_he", "laguerre", "legendre")  # fmt: skip
GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "erfc": _error,
    "erfcx": _error,
    "zeta": _zeta,
    "lgamma": _gamma,
    "erfinv": _gamma,
    "igamma": _incomplete,
    "igammac": _incomplete,
    **dict.fromkeys(_POLYNOMIALS, _polynomial),
}
