"""Calls of matrix factorisations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cuvil.ir.types import TensorType, dtype_of
from cuvil.ops.base import ShapeContext
from cuvil.ops.registry import registry
from tests.ops.values import Array, Case, Rng, case

_DTYPES = ("float32", "float64")
_SHAPES = ((0, 0), (1, 1), (3, 3), (2, 5, 4), (4, 7), (2, 0, 3, 3), (12, 12), (3, 0), (0, 3))


def _matrices(rng: Rng, square: bool = False) -> Iterator[Array]:
    for dtype in _DTYPES:
        for shape in _SHAPES:
            if not square or shape[-1] == shape[-2]:
                yield rng.standard_normal(shape).astype(dtype)


def _lu(rng: Rng) -> Iterator[Case]:
    for a in _matrices(rng):
        yield case(a, pivot=True)
        yield case(a + 3 * np.eye(*a.shape[-2:], dtype=a.dtype), pivot=False)
    yield case(np.array([[1, 2, 3], [2, 4, 6], [1, 2, 4]], np.float32), pivot=True)
    yield case(np.zeros((2, 2), np.float32), pivot=True)
    yield case(np.array([[1, 2], [-1, 5]], np.float32), pivot=True)


def _order(rng: Rng) -> Iterator[Case]:
    yield case(np.array([[3, 3, 3], [1, 2, 3]], np.int32), size=3)
    yield case(np.array([4, 2], np.int32), size=5)
    yield case(np.zeros((2, 0), np.int32), size=2)


def _cholesky(rng: Rng) -> Iterator[Case]:
    for a in _matrices(rng, square=True):
        eye = np.eye(a.shape[-1], dtype=a.dtype)
        yield case(a @ a.swapaxes(-1, -2) + eye)
    yield case(np.array([[1, 9, 9], [2, 1, 9], [0, 0, 1]], np.float32))
    yield case(np.array([[[4, np.nan], [2, 9]], [[np.nan, 0], [0, 1]]], np.float64))


def _triangular(rng: Rng) -> Iterator[Case]:
    for a in _matrices(rng, square=True):
        a = a / 4 + np.eye(a.shape[-1], dtype=a.dtype)
        b = rng.standard_normal((*a.shape[:-1], 3)).astype(a.dtype)
        for upper in (False, True):
            yield case(a, b, upper=upper, unit=False)
            yield case(a, b, upper=upper, unit=True)
    yield case(np.array([[0, 1], [1, 1]], np.float32), np.ones((2, 1), np.float32),
               upper=False, unit=False)  # fmt: skip


def _qr(rng: Rng) -> Iterator[Case]:
    for a in _matrices(rng):
        yield case(a)
    yield case(np.array([[0, 1], [0, 2], [0, 3]], np.float32))
    yield case(np.eye(3, dtype=np.float64))


def _householder(rng: Rng) -> Iterator[Case]:
    for dtype in _DTYPES:
        for *batch, m, n, k in ((3, 3, 3), (5, 3, 2), (2, 4, 4, 1), (0, 0, 0), (2, 1, 0)):
            packed = rng.standard_normal((*batch, m, n)).astype(dtype) * 0.3
            yield case(packed, np.asarray(rng.uniform(0, 2, (*batch, k))).astype(dtype))


def _eigh(rng: Rng) -> Iterator[Case]:
    for a in _matrices(rng, square=True):  # eigenvalues well apart: vectors move by 1 / gap
        yield case(a + 6 * np.diag(np.arange(a.shape[-1])).astype(a.dtype))
    yield case(np.diag(np.array([3, 1, 2], np.float32)))
    yield case(np.array([[1, 0], [np.inf, 1]], np.float32))


def _svd(rng: Rng) -> Iterator[Case]:
    for a in _matrices(rng):
        yield case(a, full=False)
        if abs(a.shape[-1] - a.shape[-2]) <= 1:  # else further vectors may be any
            yield case(a, full=True)
    yield case(np.diag(np.array([1, 3, 2], np.float32)), full=False)
    yield case(np.array([[1, np.nan], [0, 1], [2, 2]], np.float32), full=True)


def _exp(rng: Rng) -> Iterator[Case]:
    for a in _matrices(rng, square=True):
        yield case(a)
        yield case((a * 3).astype(a.dtype))
    yield case(np.array([[0, 1], [0, 0]], np.float32))
    yield case(np.array([[-50, 3], [0, -60]], np.float64))
    yield case(np.array([[[np.nan, 1], [0, 0]], [[0, np.inf], [0, 0]]], np.float32))


def _ldl_factor(rng: Rng) -> Iterator[Case]:
    for a in _matrices(rng, square=True):
        yield case(a)
        yield case(a - np.tril(np.triu(a)))  # a zero diagonal needs blocks of two
    yield case(np.zeros((2, 2), np.float32))


def _ldl_solve(rng: Rng) -> Iterator[Case]:
    for made in _ldl_factor(rng):
        a = np.asarray(made.arrays[0])
        if not a.any():
            continue
        definition = registry()["cuvil.ldl_factor"]
        types = definition.infer(ShapeContext(), [TensorType(a.shape, dtype_of(a.dtype))], {})
        ld, pivots, _ = definition.reference([a], {}, types)
        b = rng.standard_normal((*a.shape[:-1], 2)).astype(a.dtype)
        yield case(ld, pivots, b)


GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "lu_factor": _lu,
    "exchanges_to_order": _order,
    "cholesky": _cholesky,
    "triangular_solve": _triangular,
    "qr_factor": _qr,
    "householder_product": _householder,
    "eigh": _eigh,
    "svd": _svd,
    "matrix_exp": _exp,
    "ldl_factor": _ldl_factor,
    "ldl_solve": _ldl_solve,
}
