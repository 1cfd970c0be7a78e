"""Operators whose element type has no kernel are written with operators that have one.

In: canonical IR before decomposition. Out: no 16-bit float reaches a kernel that stands alone or a
contraction; products of other types are maps and reductions. Convolutions are in fallback_conv.py.
"""

from __future__ import annotations

import math

from cuvil.analysis.contraction_views import has_kernel
from cuvil.ir.core import Op, Value
from cuvil.ir.types import BF16, BOOL, F16, F32, F64, I64, DType
from cuvil.passes import fallback_blocks, fallback_conv
from cuvil.passes.decompose import Writer, split_conv_bias
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule

_SHORT = (F16, BF16)


def _moves_only(op: Op) -> bool:
    """Whether elements are copied and never combined, so that any type will do."""
    if op.short == "resize":
        return bool(op.attrs["mode"] == "nearest")
    return op.short.startswith("scatter") and op.attrs.get("reduction", "none") == "none"


@rule(
    "compute-in-f32", "matmul", "matmul_blocks", "conv", "conv_transpose", "attention", "max_pool",
    "max_pool_indices", "avg_pool", "lstm", "gru", "rnn", "resize", "cumsum", "topk",
    "cumprod", "cummax", "cummin", "logcumsumexp",
    "scatter_elements", "scatter_nd", "roi_align", "roi_max_pool",
)  # fmt: skip
def compute_in_f32(op: Op, context: Context) -> Outcome:
    """op(x) -> cast(op(cast(x, f32)), f16), for f16 and bf16, which accumulate in f32"""
    if not any(v.type.dtype in _SHORT for v in op.operands):
        return Refusal("no operand is a 16-bit float")
    if _moves_only(op):
        return Refusal("it only moves elements")

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        operands = [w.cast(v, F32) if v.type.dtype in _SHORT else v for v in op.operands]
        attrs = {k: v for k, v in op.attrs.items() if k != "out"}
        made = rw.op(op.name, operands, attrs)
        return [w.cast(a, b.type.dtype) for a, b in zip(made.results, op.results, strict=True)]

    return action


def _product_dtype(op: Op) -> DType:
    """What a product is computed in: the result's integer type, or the widest float."""
    result = op.type.dtype
    if result.is_integer:
        return result
    return F64 if F64 in (result, *(v.type.dtype for v in op.operands)) else F32


def _last_inner(w: Writer, value: Value, turned: bool) -> Value:
    """A matrix with the summed dimension last, and laid out so."""
    if not turned:
        return value
    rank = value.type.rank
    turned_value = w.rewriter.value(
        "transpose", [value], perm=(*range(rank - 2), rank - 1, rank - 2)
    )
    return w.rewriter.value("materialize", [turned_value])


@rule("rows-of-bytes", "matmul")
def rows_of_bytes(op: Op, context: Context) -> Outcome:
    """matmul(a, b, trans_a) -> matmul(transpose(a), b), for integers: their kernel reads rows"""
    if not op.attrs.get("trans_a") or not op.type.dtype.is_integer:
        return Refusal("a is not transposed, or they are floats")

    def action(rw: Rewriter) -> list[Value]:
        rank = op.operands[0].type.rank
        perm = (*range(rank - 2), rank - 1, rank - 2)
        rows = rw.value("transpose", [op.operands[0]], perm=perm)
        attrs = {k: v for k, v in op.attrs.items() if k != "trans_a"}
        return [rw.op(op.name, [rows, op.operands[1]], attrs).result]

    return action


@rule("multiply-and-sum", "matmul")
def multiply_and_sum(op: Op, context: Context) -> Outcome:
    """matmul(a, b) -> reduce_sum(a[.., M, 1, K] * b[.., 1, N, K]), for types without a kernel"""
    if has_kernel(op):
        return Refusal("it has a kernel")
    a, b = op.operands
    if a.type.dtype in _SHORT or b.type.dtype in _SHORT:
        return Refusal("it is computed in f32")
    dtype = _product_dtype(op)

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        left, right = w.cast(a, dtype), w.cast(b, dtype)
        if dtype == F32:
            attrs = {k: v for k, v in op.attrs.items() if k != "out"}
            return [w.cast(rw.op(op.name, [left, right], attrs).result, op.type.dtype)]
        left = _last_inner(w, left, bool(op.attrs.get("trans_a")))
        right = _last_inner(w, right, not op.attrs.get("trans_b"))
        rows, columns = left.type.shape, right.type.shape
        left = w.reshape(left, (*rows[:-1], 1, rows[-1]))
        right = w.reshape(right, (*columns[:-2], 1, *columns[-2:]))
        total = w.reduce("reduce_sum", w("mul", left, right), [op.type.rank])
        return [w.cast(w.reshape(total, op.type.shape), op.type.dtype)]

    return action


@rule("attention-mask-in-f32", "attention")
def mask_in_f32(op: Op, context: Context) -> Outcome:
    """attention(q, k, v, mask) -> attention(q, k, v, cast(mask, f32))"""
    if op.type.dtype != F32 or has_kernel(op):
        return Refusal("it is not computed in f32, or has a kernel already")

    def action(rw: Rewriter) -> list[Value]:
        mask = Writer(rw).cast(op.operands[3], F32)
        return [rw.op(op.name, [*op.operands[:3], mask], op.attrs).result]

    return action


def _spread_heads(w: Writer, value: Value, heads: object) -> Value:
    """[B, Hk, T, D] to [B, H, T, D]: each head of k and v serves H / Hk of q."""
    batch, shared, length, size = value.type.shape
    if heads == shared or not isinstance(heads, int) or not isinstance(shared, int):
        return value
    group = heads // shared
    split = w.reshape(value, (batch, shared, 1, length, size))
    wide = w.spread(split, (batch, shared, group, length, size))
    return w.reshape(wide, (batch, heads, length, size))


def _visible(w: Writer, op: Op, scores: Value) -> Value:
    """Scores with the mask applied and -inf where causality hides a key."""
    rw, dtype = w.rewriter, scores.type.dtype
    hidden = w.number(-math.inf, dtype)
    if op.attrs["has_mask"]:
        mask = op.operands[3]
        if mask.type.dtype == BOOL:
            scores = w("select", mask, scores, hidden)
        else:
            scores = w("add", scores, w.cast(mask, dtype))
    if op.attrs["causal"]:
        grid = scores.type.shape[2:]
        row, column = (rw.value("iota", shape=grid, axis=i, dtype=I64) for i in range(2))
        offset = rw.value("dims", values=(op.attrs.get("causal_offset", 0),), scalar=True)
        scores = w("select", w("le", column, w("add", row, offset)), scores, hidden)
    return scores


@rule("decompose-attention", "attention")
def decompose_attention(op: Op, context: Context) -> Outcome:
    """attention(q, k, v) -> matmul(softmax(matmul(q, k^T) * scale + mask), v), for f64"""
    if op.type.dtype != F64:
        return Refusal("it is computed in f32")
    q, k, v = op.operands[:3]
    if k.type.shape[2] == 0:
        return Refusal("it has no key")

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        keys, values = (_spread_heads(w, x, q.type.shape[1]) for x in (k, v))
        scores = rw.value("matmul", [q, keys], trans_b=True)
        scores = _visible(w, op, w("mul", scores, w.number(op.attrs["scale"], F64)))
        top = w.reduce("reduce_max", scores, [3])
        none, zero, one = (w.number(x, F64) for x in (-math.inf, 0.0, 1.0))
        shift = w("select", w("eq", top, none), zero, top)
        e = w("exp", w("sub", scores, shift))
        total = w.reduce("reduce_sum", e, [3])
        if not op.attrs.get("nan_rows"):
            total = w("select", w("eq", total, zero), one, total)
        weights = w("div", e, total)
        if op.attrs.get("zero_nan_rows"):
            weights = w("select", w("isnan", weights), zero, weights)
        out = rw.value("matmul", [weights, values])
        if op.attrs.get("heads_inner"):
            out = rw.value("transpose", [out], perm=(0, 2, 1, 3))
        return [out]

    return action


@rule("attention-without-keys", "attention")
def attention_without_keys(op: Op, context: Context) -> Outcome:
    """attention(q, k[.., 0, D], v) -> 0"""
    if op.operands[1].type.shape[2] != 0:
        return Refusal("there may be a key")

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        return [w.spread(w.number(0.0, op.type.dtype), op.type.shape)]

    return action


RULES: list[Rule] = [
    compute_in_f32,
    mask_in_f32,
    attention_without_keys,
    decompose_attention,
    split_conv_bias,
    *fallback_conv.RULES,
    *fallback_blocks.RULES,
    rows_of_bytes,
    multiply_and_sum,
]
