"""Contractions: matrix products and attention. Convolutions are in convolution.py.

Floats accumulate in f32 at least (the references in f64); integers wrap in the result's dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import BOOL, DType, Shape, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext, same_dtype
from cuvil.ops.numeric import is_float, narrow_to, need_number, need_operands, wide
from cuvil.sym.expr import evaluate, mul, product


def product_dtype(types: Sequence[TensorType], attrs: Attrs, name: str) -> DType:
    """The dtype of a product of two operands: theirs, or ``out``.

    Integers of two kinds (i8 with u8) may meet where ``out`` is an integer dtype, floats of two
    kinds where ``out`` is the larger one.
    """
    a, b = types[0].dtype, types[1].dtype
    for operand in types[:2]:
        need_number(operand, name)
    out: DType | None = attrs.get("out")
    if a == BOOL or b == BOOL:
        raise InvalidModelError(f"{name} is not defined for bool", hint="cast to an integer dtype")
    if out is None or not _may_meet(a, b, out):
        same_dtype(types[:2], name)
    if out is not None and (out == BOOL or out.is_float != a.is_float):
        raise InvalidModelError(f"{name} of {a} and {b} can't give {out}")
    return out or a


def _may_meet(a: DType, b: DType, out: DType) -> bool:
    """Whether operands of two dtypes have a product in ``out``."""
    if a.is_float and b.is_float:
        return a.size != b.size and out == (a if a.size > b.size else b)
    return not a.is_float and not b.is_float


def product_operand(array: Array, result: DType) -> Array:
    """The operand in the dtype the reference multiplies in: f64 where that is exact enough
    (floats; integers up to 16 bits, whose products sum exactly below 2**21 terms)."""
    if is_float(array) or array.dtype.itemsize <= 2:
        return array.astype(np.float64)
    return array.astype(result.numpy)


def product_result(total: Array, result: TensorType) -> Array:
    """The sum rounded or wrapped to the result's dtype."""
    if result.dtype.is_integer and is_float(total):
        total = total.astype(np.int64)
    return narrow_to(total, result)


def _common(a: Array, b: Array) -> tuple[Array, Array]:
    if is_float(a) == is_float(b):
        return a, b
    if is_float(a):
        return a.astype(b.dtype), b
    return a, b.astype(a.dtype)


def multiply_operands(a: Array, b: Array, result: DType) -> tuple[Array, Array]:
    """Both operands of a product in one dtype to compute in."""
    return _common(product_operand(np.asarray(a), result), product_operand(np.asarray(b), result))


def matmul_sizes(types: Sequence[Any], attrs: Attrs) -> tuple[Any, Any, Any]:
    """(M, N, K) of a matmul, from types or arrays."""
    a, b = types[0].shape, types[1].shape
    m, k = (a[-1], a[-2]) if attrs.get("trans_a", False) else (a[-2], a[-1])
    n = b[-2] if attrs.get("trans_b", False) else b[-1]
    return m, n, k


def _matmul_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    a, b = types
    if a.rank < 2 or b.rank < 2:
        raise InvalidModelError(f"matmul needs matrices, got {a} and {b}")
    dtype = product_dtype(types, attrs, "matmul")
    m, n, k = matmul_sizes(types, attrs)
    ctx.same(k, b.shape[-1 if attrs.get("trans_b", False) else -2], "matmul: inner dimension")
    batch: Shape = a.shape[:-2] or b.shape[:-2]
    if a.rank > 2 and b.rank > 2:
        if a.rank != b.rank:
            raise InvalidModelError(f"matmul needs batches of one rank, got {a} and {b}")
        pairs = zip(a.shape[:-2], b.shape[:-2], strict=True)
        batch = tuple(ctx.same(x, y, f"matmul: batch {i}") for i, (x, y) in enumerate(pairs))
    return [TensorType((*batch, m, n), dtype)]


def _matmul_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    a, b = multiply_operands(arrays[0], arrays[1], results[0].dtype)
    a = a.swapaxes(-1, -2) if attrs.get("trans_a", False) else a
    b = b.swapaxes(-1, -2) if attrs.get("trans_b", False) else b
    with np.errstate(all="ignore"):
        return [product_result(np.matmul(a, b), results[0])]


def _matmul_cost(
    operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs
) -> Cost:
    return Cost(mul(mul(results[0].elements, matmul_sizes(operands, attrs)[2]), 2))


def _attention_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    need_operands(types, 3 + attrs["has_mask"], "attention")
    q, k, v = types[:3]
    dtype = same_dtype(types[:3], "attention")
    if not dtype.is_float or not q.rank == k.rank == v.rank == 4:
        raise InvalidModelError(f"attention needs float tensors of rank 4, got {q}, {k} and {v}")
    batch = ctx.same(q.shape[0], k.shape[0], "attention: batch of q and k")
    batch = ctx.same(batch, v.shape[0], "attention: batch of q and v")
    ctx.same(k.shape[1], v.shape[1], "attention: heads of k and v")
    heads, shared = q.shape[1], k.shape[1]
    if isinstance(heads, int) and isinstance(shared, int):
        if heads != shared and (shared == 0 or heads % shared):
            raise InvalidModelError(f"attention: {heads} heads of q can't share {shared} of k")
    elif heads != shared:
        ctx.same(heads, shared, "attention: heads of q and k")
    ctx.same(q.shape[3], k.shape[3], "attention: size of q and k")
    length = ctx.same(k.shape[2], v.shape[2], "attention: length of k and v")
    if attrs["has_mask"]:
        _check_mask(ctx, types[3], (batch, heads, q.shape[2], length))
    if attrs.get("heads_inner"):
        return [TensorType((batch, q.shape[2], heads, v.shape[3]), dtype)]
    return [TensorType((batch, heads, q.shape[2], v.shape[3]), dtype)]


def _check_mask(ctx: ShapeContext, mask: TensorType, scores: Shape) -> None:
    if mask.dtype != BOOL and not mask.dtype.is_float:
        raise InvalidModelError(f"attention: a mask is bool or float, not {mask.dtype}")
    if mask.rank > 4:
        raise InvalidModelError(f"attention: mask {mask} has more than 4 dimensions")
    for axis, have in enumerate(mask.shape, 4 - mask.rank):
        if have != 1:
            ctx.same(have, scores[axis], f"attention: mask dimension {axis}")


def attention_scores(arrays: Sequence[Array], attrs: Attrs) -> Array:
    """Masked, scaled scores [B, H, S, T] in f64; -inf where a key is not visible."""
    q, k = wide(np.asarray(arrays[0])), wide(np.asarray(arrays[1]))
    group = q.shape[1] // k.shape[1] if k.shape[1] else 1
    scores = np.matmul(q, np.repeat(k, group, axis=1).swapaxes(-1, -2)) * attrs["scale"]
    if attrs["has_mask"]:
        mask = np.asarray(arrays[3])
        if mask.dtype.kind == "b":
            scores = np.where(mask, scores, -np.inf)
        else:
            scores = scores + wide(mask)
    if attrs["causal"]:
        rows, columns = np.indices(scores.shape[2:], sparse=True)
        offset = evaluate(attrs.get("causal_offset", 0), {})
        scores = np.where(columns <= rows + offset, scores, -np.inf)
    return np.asarray(scores)


def _attention_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """softmax(q k^T * scale + mask) v (Vaswani et al. 2017, eq. 1); a row without any visible
    key gives zeros, as torch's scaled_dot_product_attention does."""
    with np.errstate(all="ignore"):
        scores = attention_scores(arrays, attrs)
        top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
        total = weights.sum(axis=-1, keepdims=True)
        if not attrs.get("nan_rows"):
            total = np.where(total == 0, 1, total)
        weights = weights / total
        if attrs.get("zero_nan_rows"):
            weights = np.where(np.isnan(weights), 0, weights)
        v = wide(np.asarray(arrays[2]))
        group = weights.shape[1] // v.shape[1] if v.shape[1] else 1
        out = np.matmul(weights, np.repeat(v, group, axis=1))
        out = out.swapaxes(1, 2) if attrs.get("heads_inner") else out
        return [narrow_to(out, results[0])]


def _attention_cost(
    operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs
) -> Cost:
    """Two products and some five operations a score."""
    b, h, s, d = operands[0].shape
    length, dv = operands[2].shape[2:]
    scores = product((b, h, s, length))
    return Cost(mul(scores, mul(d, 2) + mul(dv, 2) + 5))


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.matmul",
        "contraction",
        _matmul_infer,
        _matmul_reference,
        (2, 2),
        {"trans_a": "bool?", "trans_b": "bool?", "out": "dtype?"},
        "accumulated",
        _matmul_cost,
        doc="a [..., M, K] times b [..., K, N]; equal batch dims, or one operand of rank 2.",
    ),
    OpDef(
        "cuvil.attention",
        "contraction",
        _attention_infer,
        _attention_reference,
        (3, 4),
        {
            "scale": "float", "causal": "bool", "has_mask": "bool", "causal_offset": "dim?",
            "heads_inner": "bool?", "nan_rows": "bool?", "zero_nan_rows": "bool?",
            "narrow": "bool?",
        },
        "accumulated",
        _attention_cost,
        doc="q [B, H, S, D], k [B, Hk, T, D], v [B, Hk, T, Dv], mask (bool: keep; float: added)."
        " Causal: query i sees key j when j <= i + causal_offset. No visible key gives zeros, or"
        " with nan_rows NaN (where there is a key at all), as softmax does. zero_nan_rows: with"
        " nan_rows, weights that are NaN for whatever reason count as 0. narrow: q, k, v and the"
        " weights may be rounded to bf16, where that is faster.",
    ),
]
