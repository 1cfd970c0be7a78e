"""Factorisations of small dense matrices [..., m, n], for f32 and f64, computed in f64.

Eigenvectors and singular vectors are free in their sign: here the element of largest magnitude of
each (of a singular pair, of the vector on the shorter side) is positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import F32, F64, I32, I64, Shape, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext, same_dtype
from cuvil.sym.expr import Dim, minimum, mul


def matrix(type: TensorType, name: str) -> tuple[Shape, Dim, Dim]:
    """(batch, m, n). Raises InvalidModelError unless it is a batch of matrices of f32 or f64."""
    if type.dtype not in (F32, F64):
        raise InvalidModelError(f"{name} is not defined for {type.dtype}")
    if type.rank < 2:
        raise InvalidModelError(f"{name} needs matrices, got {type}")
    return type.shape[:-2], type.shape[-2], type.shape[-1]


def square(ctx: ShapeContext, type: TensorType, name: str) -> tuple[Shape, Dim]:
    """(batch, n) of square matrices."""
    batch, m, n = matrix(type, name)
    return batch, ctx.same(m, n, f"{name}: a square matrix")


def matrix_cost(
    operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs
) -> Cost:
    """About one operation for each element, row and column."""
    shape = operands[0].shape
    return Cost(mul(operands[0].elements, minimum(shape[-2], shape[-1])))


def batched(function: Callable[..., tuple[Any, ...]]) -> Any:
    """A reference for matrices applied to every matrix of a batch, in f64."""

    def run(arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]) -> list[Array]:
        batch = np.shape(arrays[0])[:-2]
        shapes = [tuple(int(d) for d in r.shape) for r in results]  # type: ignore[arg-type]
        outs = [np.zeros(s, r.dtype.numpy) for s, r in zip(shapes, results, strict=True)]
        with np.errstate(all="ignore"):
            for at in np.ndindex(*batch):
                given = [_wide(a[at]) for a in arrays]
                for out, found in zip(outs, function(*given, attrs), strict=True):
                    out[at] = found
        return outs

    return run


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _lu_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    batch, m, n = matrix(types[0], "lu_factor")
    return [types[0], TensorType((*batch, minimum(m, n)), I32), TensorType(batch, I32)]


def _lu(a: Array, attrs: Attrs) -> tuple[Array, Array, int]:
    a = a.copy()
    m, n = a.shape
    pivots, info = np.arange(1, min(m, n) + 1), 0
    for j in range(min(m, n)):
        best = j + int(np.argmax(np.abs(a[j:, j]))) if attrs["pivot"] else j
        pivots[j] = best + 1
        if a[best, j] == 0:
            info = info or j + 1
            continue
        a[[j, best]] = a[[best, j]]
        a[j + 1 :, j] /= a[j, j]
        a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])
    return a, pivots, info


def _order_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    if types[0].dtype != I32 or not types[0].rank:
        raise InvalidModelError(f"exchanges_to_order needs i32 pivots, got {types[0]}")
    return [TensorType((*types[0].shape[:-1], attrs["size"]), I64)]


def _order_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    shape = tuple(int(d) for d in results[0].shape)  # type: ignore[arg-type]
    out = np.broadcast_to(np.arange(shape[-1]), shape).copy()
    for at in np.ndindex(*shape[:-1]):
        for i, pivot in enumerate(arrays[0][at]):
            if not 1 <= pivot <= shape[-1]:
                raise IndexError(f"a pivot of {pivot} in {shape[-1]} rows")
            row = out[at]
            row[[i, pivot - 1]] = row[[pivot - 1, i]]
    return [out]


def _cholesky_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    batch, _ = square(ctx, types[0], "cholesky")
    return [types[0], TensorType(batch, I32)]


def _cholesky(a: Array, attrs: Attrs) -> tuple[Array, int]:
    """By the leading minors, so that the first that is not positive is known."""
    out = np.zeros_like(a)
    for i in range(len(a)):
        for j in range(i):
            out[i, j] = (a[i, j] - out[i, :j] @ out[j, :j]) / out[j, j]
        rest = a[i, i] - out[i, :i] @ out[i, :i]
        if not rest > 0:
            return np.full_like(a, np.nan), i + 1
        out[i, i] = np.sqrt(rest)
    return out, 0


def _solve_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    same_dtype(types, "triangular_solve")
    batch, n = square(ctx, types[0], "triangular_solve")
    other, rows, _ = matrix(types[1], "triangular_solve")
    ctx.same(n, rows, "triangular_solve: rows of both sides")
    if len(batch) != len(other):
        raise InvalidModelError(f"triangular_solve needs one batch, got {types[0]}, {types[1]}")
    for i, (a, b) in enumerate(zip(batch, other, strict=True)):
        ctx.same(a, b, f"triangular_solve: batch dimension {i}")
    return [types[1]]


def _solve(a: Array, b: Array, attrs: Attrs) -> tuple[Array]:
    x, n = b.copy(), len(a)
    for i in range(n - 1, -1, -1) if attrs["upper"] else range(n):
        known = slice(i + 1, n) if attrs["upper"] else slice(0, i)
        x[i] -= a[i, known] @ x[known]
        if not attrs["unit"]:
            x[i] /= a[i, i]
    return (x,)


def _qr_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    batch, m, n = matrix(types[0], "qr_factor")
    return [types[0], types[0].with_shape((*batch, minimum(m, n)))]


def _qr(a: Array, attrs: Attrs) -> tuple[Array, Array]:
    if 0 in a.shape:
        return a, np.zeros(min(a.shape))
    packed, tau = np.linalg.qr(a, mode="raw")
    return packed.T, tau


def _product_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    same_dtype(types, "householder_product")
    batch, m, n = matrix(types[0], "householder_product")
    if types[1].rank != len(batch) + 1:
        raise InvalidModelError(f"householder_product: factors {types[1]} for {types[0]}")
    for i, (a, b) in enumerate(zip(batch, types[1].shape[:-1], strict=True)):
        ctx.same(a, b, f"householder_product: batch dimension {i}")
    ctx.require(types[1].shape[-1], "<=", n, "householder_product: factors and columns")
    ctx.require(n, "<=", m, "householder_product: columns and rows")
    return [types[0]]


def _product(packed: Array, tau: Array, attrs: Attrs) -> tuple[Array]:
    m, n = packed.shape
    out = np.eye(m, n)
    for j in range(len(tau) - 1, -1, -1):
        v = np.concatenate([np.zeros(j), [1.0], packed[j + 1 :, j]])
        out -= tau[j] * np.outer(v, v @ out)
    return (out,)


def _signs(vectors: Array) -> Array:
    """-1 for the columns whose element of largest magnitude is negative, else 1."""
    if not len(vectors):
        return np.ones(vectors.shape[1])
    lead = np.argmax(np.abs(vectors) / (1 + 1e-9 * np.arange(len(vectors)))[:, None], axis=0)
    return np.where(np.take_along_axis(vectors, lead[None], axis=0)[0] < 0, -1.0, 1.0)


def _eigh_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    batch, n = square(ctx, types[0], "eigh")
    return [types[0].with_shape((*batch, n)), types[0]]


def _eigh(a: Array, attrs: Attrs) -> tuple[Array, Array]:
    if not np.isfinite(np.tril(a)).all():
        return np.full(len(a), np.nan), np.full_like(a, np.nan)
    values, vectors = np.linalg.eigh(a)
    return values, vectors * _signs(vectors)


def _svd_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    batch, m, n = matrix(types[0], "svd")
    k = minimum(m, n)
    left, right = (m, n) if attrs["full"] else (k, k)
    shapes = ((*batch, m, left), (*batch, k), (*batch, right, n))
    return [types[0].with_shape(shape) for shape in shapes]


def _svd(a: Array, attrs: Attrs) -> tuple[Array, Array, Array]:
    m, n = a.shape
    k = min(m, n)
    if not np.isfinite(a).all():
        left, right = (m, n) if attrs["full"] else (k, k)
        return tuple(np.full(s, np.nan) for s in ((m, left), k, (right, n)))  # type: ignore
    u, s, vh = np.linalg.svd(a, full_matrices=attrs["full"])
    signs = _signs(u if n > m else vh[:k].T)
    u[:, :k] *= signs
    vh[:k] *= signs[:, None]
    u[:, k:] *= _signs(u[:, k:])
    vh[k:] *= _signs(vh[k:].T)[:, None]
    return u, s, vh


def _exp_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    square(ctx, types[0], "matrix_exp")
    return [types[0]]


def _exp(a: Array, attrs: Attrs) -> tuple[Array]:
    """Pade's approximation of degree 13 (Higham, 2005), scaled and squared."""
    if not np.isfinite(a).all():
        return (np.full_like(a, np.nan),)
    norm = float(np.max(np.abs(a).sum(-1), initial=0.0))
    halvings = max(0, int(np.ceil(np.log2(max(norm, 1e-300) / 4))))
    a = a / 2.0**halvings
    b = [math.factorial(26 - k) * math.factorial(13) / (
        math.factorial(26) * math.factorial(k) * math.factorial(13 - k)) for k in range(14)]
    powers = [np.linalg.matrix_power(a, k) for k in range(14)]
    even = sum((b[k] * powers[k] for k in range(0, 14, 2)), np.zeros_like(a))
    odd = sum((b[k] * powers[k] for k in range(1, 14, 2)), np.zeros_like(a))
    out = np.linalg.solve(even - odd, even + odd)
    for _ in range(halvings):
        out = out @ out
    return (out,)


def _define(
    name: str, infer: Any, reference: Any, doc: str, attrs: dict[str, str], operands: int = 1
) -> OpDef:
    return OpDef(
        f"cuvil.{name}", "kernel", infer, reference, (operands, operands), attrs, "accumulated",
        matrix_cost, doc=doc,
    )  # fmt: skip


DEFS: list[OpDef] = [
    _define(
        "lu_factor", _lu_infer, batched(_lu),
        "L (unit diagonal) below and U above in one matrix; the rows exchanged, from 1, i32; the "
        "first zero pivot or 0, i32.", {"pivot": "bool"},
    ),
    OpDef(
        "cuvil.exchanges_to_order", "kernel", _order_infer, _order_reference, (1, 1),
        {"size": "dim"}, doc="lu_factor's exchanges as the row that lands in each place, i64.",
    ),
    _define(
        "cholesky", _cholesky_infer, batched(_cholesky),
        "Lower factor of the lower triangle; the order of the first minor that is not positive "
        "(all is NaN then) or 0, i32.", {},
    ),
    _define(
        "triangular_solve", _solve_infer, batched(_solve),
        "a [n, n], b [n, k]: x with a x = b.", {"upper": "bool", "unit": "bool"}, 2,
    ),
    _define(
        "qr_factor", _qr_infer, batched(_qr),
        "R above, the vectors of Householder reflections below; their factors (LAPACK's geqrf).",
        {},
    ),
    _define(
        "householder_product", _product_infer, batched(_product),
        "Vectors and factors as of qr_factor: the first columns of Q (LAPACK's orgqr).", {}, 2,
    ),
    _define(
        "eigh", _eigh_infer, batched(_eigh),
        "Ascending eigenvalues and eigenvectors in columns, from the lower triangle.", {},
    ),
    _define(
        "matrix_exp", _exp_infer, batched(_exp), "The sum of a**k / k!.", {},
    ),
    _define(
        "svd", _svd_infer, batched(_svd),
        "u, s (descending), vh; all columns of u and rows of vh if full.", {"full": "bool"},
    ),
]  # fmt: skip
