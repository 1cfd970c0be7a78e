"""Symmetric indefinite matrices [..., n, n]: L D L^T by Bunch and Kaufman, 1977."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import I32, TensorType
from cuvil.ops.base import Array, Attrs, OpDef, ShapeContext, same_dtype
from cuvil.ops.linalg import batched, matrix, matrix_cost, square

_ALPHA = (1 + math.sqrt(17)) / 8


def _factor_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    batch, n = square(ctx, types[0], "ldl_factor")
    return [types[0], TensorType((*batch, n), I32), TensorType(batch, I32)]


def _pivot(s: Array, k: int) -> tuple[int, int]:
    """(row, size of the block) of what comes next in the whole symmetric matrix ``s``."""
    here = abs(s[k, k])
    column = np.abs(s[k + 1 :, k])
    top = np.max(column, initial=0.0)
    if (here == 0 and top == 0) or np.isnan(here):
        return k, 0
    if here >= _ALPHA * top:
        return k, 1
    at = k + 1 + int(np.argmax(column))
    row = np.max(np.abs(np.delete(s[at, k:], at - k)))
    if here >= _ALPHA * top * (top / row):
        return k, 1
    return (at, 1) if abs(s[at, at]) >= _ALPHA * row else (at, 2)


def _factor(a: Array, attrs: Attrs) -> tuple[Array, Array, int]:
    """On the full symmetric matrix; the columns done so far keep the order they had."""
    n = len(a)
    s = np.tril(a) + np.tril(a, -1).T
    out, pivots, info, k = np.zeros_like(a), np.zeros(n, np.int32), 0, 0
    while k < n:
        row, size = _pivot(s, k)
        if not size:
            info = info or k + 1
        block = slice(k, k + max(size, 1))
        last = block.stop - 1
        s[[last, row]] = s[[row, last]]
        s[:, [last, row]] = s[:, [row, last]]
        out[block, block] = np.tril(s[block, block])
        after = slice(block.stop, n)
        if size:
            columns = np.linalg.solve(s[block, block], s[block, after]).T
            out[after, block] = columns
            s[after, after] -= columns @ s[block, after]
        pivots[block] = row + 1 if size < 2 else -(row + 1)
        k = block.stop
    return out, pivots, info


def _solve_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    ld, pivots, b = types
    same_dtype((ld, b), "ldl_solve")
    batch, n = square(ctx, ld, "ldl_solve")
    rows = matrix(b, "ldl_solve")[1]
    ctx.same(n, rows, "ldl_solve: rows of both sides")
    if pivots.dtype != I32 or pivots.rank != ld.rank - 1 or b.rank != ld.rank:
        raise InvalidModelError(f"ldl_solve: {ld}, {pivots} and {b} do not fit")
    for i, d in enumerate(batch):
        ctx.same(d, pivots.shape[i], f"ldl_solve: batch dimension {i}")
        ctx.same(d, b.shape[i], f"ldl_solve: batch dimension {i}")
    ctx.same(n, pivots.shape[-1], "ldl_solve: pivots")
    return [b]


def _solve(ld: Array, pivots: Array, b: Array, attrs: Attrs) -> tuple[Array]:
    """By the matrix itself: a = P1 L1 P2 L2 .. D .. L2^T P2 L1^T P1."""
    n = len(ld)
    lower, diagonal, k = np.eye(n), np.zeros((n, n)), 0
    while k < n:
        size = 2 if pivots[k] < 0 and k + 1 < n else 1
        block = slice(k, k + size)
        last, row = block.stop - 1, abs(int(pivots[k])) - 1
        if not 0 <= row < n:
            raise IndexError(f"a pivot of {row + 1} in {n} rows")
        step = np.eye(n)
        step[block.stop :, block] = ld[block.stop :, block]
        turn = np.eye(n)
        turn[[last, row]] = turn[[row, last]]
        lower = lower @ turn @ step
        part = np.tril(ld[block, block])
        diagonal[block, block] = part + np.tril(part, -1).T
        k = block.stop
    return (np.linalg.solve(lower @ diagonal @ lower.T, b),)


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.ldl_factor", "kernel", _factor_infer, batched(_factor), (1, 1), {}, "accumulated",
        matrix_cost,
        doc="From the lower triangle: L below D; the rows exchanged, from 1 and negative for the "
        "blocks of two, i32; the first zero pivot or 0, i32 (LAPACK's sytrf).",
    ),
    OpDef(
        "cuvil.ldl_solve", "kernel", _solve_infer, batched(_solve), (3, 3), {}, "accumulated",
        matrix_cost, doc="ld, pivots, b: x with a x = b (LAPACK's sytrs).",
    ),
]  # fmt: skip
