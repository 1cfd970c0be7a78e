"""Distances between points, bags of embeddings, and losses that torch keeps whole."""

from __future__ import annotations

import math

import numpy as np

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_contraction import matmul
from cuvil.frontends.torch_export.unchecked import WITH_TAIL
from cuvil.frontends.torch_export.weights import dtype_from_torch
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I64
from cuvil.sym.expr import Dim, add

_SUM, _MEAN, _MAX = range(3)


def _length(c: Call, gap: Value, order: float) -> Value:
    """The norm of the last axis: 0 counts, inf is the largest; 0 of nothing."""
    e, dtype = c.e, gap.type.dtype
    last = (gap.type.rank - 1,)
    if gap.type.shape[-1] == 0:
        return e.broadcast(e.scalar(0, dtype), gap.type.shape[:-1])
    size = e.op("abs", gap)
    if math.isinf(order):
        return e.op("reduce_max", size, axes=last, keepdims=False)
    if order == 0:
        size = e.cast(e.with_scalar("ne", gap, 0), dtype)
    elif order == 2:
        size = e.op("mul", gap, gap)
    elif order != 1:
        size = e.with_scalar("pow", size, order)
    total = e.op("reduce_sum", size, axes=last, keepdims=False)
    if order in (0, 1):
        return total
    return e.op("sqrt", total) if order == 2 else e.with_scalar("pow", total, 1 / order)


def _distances(c: Call) -> Value:
    """The distance of each row of x1 from each of x2."""
    a, b = c.as_value(c["x1"], c.dtype), c.as_value(c["x2"], c.dtype)
    gap = c.e.map("sub", c.e.unsqueeze(a, -2), c.e.unsqueeze(b, -3))
    return _length(c, gap, float(c.get("p", 2.0)))


def _pair_distances(c: Call) -> Value:
    """The distance of each row from each later one."""
    x = c.first
    size = x.type.shape[0]
    if not isinstance(size, int):
        raise Refused("pdist of a symbolic number of points")
    first, second = np.triu_indices(size, 1)
    a, b = (c.e.op("gather", x, c.e.weight(i.astype(np.int64)), axis=0) for i in (first, second))
    return _length(c, c.e.op("sub", a, b), float(c.get("p", 2.0)))


def _embedding_bag(c: Call) -> list[Value | None]:
    """Sums, means or maxima of rows of the table, bag by bag; rows of the padding index are left
    out, an empty bag gives 0."""
    e, table, mode = c.e, c.tensor("weight"), int(c.get("mode", 0))
    index, offsets = e.cast(c.tensor("indices"), I64), e.cast(c.tensor("offsets"), I64)
    padding = c.get("padding_idx", -1)
    padded = padding is not None and padding >= 0
    size, count = offsets.type.shape[0], index.type.shape[0]
    # With the last offset, rows from there on are in a bag that is none of the results.
    ended = bool(c.get("include_last_offset", False))
    bags: Dim = add(size, -1) if ended else size
    rows = e.op("gather", table, index, axis=0, from_end=False)
    weights = c.tensor_or_none("per_sample_weights")
    if weights is not None:
        rows = e.map("mul", rows, e.unsqueeze(e.cast(weights, rows.type.dtype), -1))
    kinds = map(dtype_from_torch, WITH_TAIL)
    tail = mode == _SUM and not padded and table.type.dtype in kinds
    bag = _bags_of_rows(c, offsets, count, exact=ended and not tail)
    keep = e.cast(e.with_scalar("ge", index, 0), BOOL)
    if padded:
        keep = e.with_scalar("ne", index, padding)
    neutral = -math.inf if mode == _MAX else 0
    rows = (Term(e, e.unsqueeze(keep, -1))).where(Term(e, rows), neutral).value
    start = e.broadcast(e.scalar(neutral, rows.type.dtype), (size, rows.type.shape[1]))
    at = e.broadcast(bag, rows.type.shape)
    reduction = "max" if mode == _MAX else "add"
    out = e.op("scatter_elements", start, at, rows, axis=0, reduction=reduction)
    out = e.slice(out, 0, 0, bags) if ended else out
    if mode == _SUM:
        return [out, *[None] * (len(c.metas) - 1)]
    zeros = e.broadcast(e.scalar(0, I64), (size, 1))
    kept = e.cast(e.unsqueeze(keep, -1), I64)
    number = e.op("scatter_elements", zeros, bag, kept, axis=0, reduction="add")
    held = Term(e, e.slice(number, 0, 0, bags) if ended else number)
    if mode == _MEAN:
        out = (Term(e, out) / held.map("max", 1).cast(out.type.dtype)).value
    else:
        out = held.equals(0).where(0.0, Term(e, out)).value
    return [out, *[None] * (len(c.metas) - 1)]


def _bags_of_rows(c: Call, offsets: Value, count: Dim, exact: bool) -> Value:
    """The bag [count, 1] of each row. Where the offsets don't rise from 0 to at most the number of
    rows, or, if ``exact``, not to that itself, one that is outside: the call is refused."""
    e, size = c.e, offsets.type.shape[0]
    line = e.op("iota", shape=(count, 1), axis=0, dtype=I64)
    begun = e.cast(e.map("le", e.unsqueeze(offsets, 0), line), I64)
    bag = Term(e, e.op("reduce_sum", begun, axes=(1,), keepdims=True)) - 1
    ends = e.dims([count])
    edges = e.op("concat", e.dims([0]), offsets, ends, axis=0)
    after = Term(e, e.slice(edges, 0, 1, add(size, 2)))
    rising = (after >= Term(e, e.slice(edges, 0, 0, add(size, 1)))).value
    good = Term(e, e.op("reduce_all", rising, axes=(0,), keepdims=True))
    good = good & Term(e, e.slice(edges, 0, 1, 2)).map("le", 0)
    if exact:
        good = good & (Term(e, e.slice(edges, 0, size, add(size, 1))) >= Term(e, ends))
    return good.where(bag, Term(e, e.dims([size]))).value


def _embedding_renorm(c: Call) -> Value:
    """The rows that are looked up, scaled to a largest norm."""
    e, table = c.e, c.first
    index = c.tensor("indices")
    flat = e.reshape(e.cast(index, I64), (index.type.elements,))
    size, dtype = table.type.shape[0], table.type.dtype
    marks = e.broadcast(e.scalar(False, BOOL), (size,))
    hits = e.broadcast(e.scalar(True, BOOL), flat.type.shape)
    marks = e.op("scatter_elements", marks, flat, hits, axis=0)
    limit = float(c.number("max_norm"))
    norm = Term(e, _length(c, table, float(c.number("norm_type"))))
    scale = (Term(e, marks) & (norm > limit)).where(limit / (norm + 1e-7), 1.0)
    return e.map("mul", table, e.unsqueeze(scale.cast(dtype).value, -1))


def _class_losses(c: Call, smoothing: float) -> tuple[Value, Value]:
    """Cross entropy of a linear layer for each sample, and each sample's weight."""
    e = c.e
    scores = matmul(c, c.tensor("input"), c.tensor("linear_weight"), trans_b=True)
    bias = c.tensor_or_none("linear_bias")
    scores = scores if bias is None else e.map("add", scores, bias)
    logs = e.op("log_softmax", scores, axis=1)
    target, dtype = c.tensor("target"), logs.type.dtype
    counts = Term(e, target).map("ne", int(c.number("ignore_index")))
    safe = counts.where(Term(e, target), 0).value
    loss = _picked(c, logs, safe)
    weights = c.tensor_or_none("weight")
    share = e.broadcast(e.scalar(1, dtype), safe.type.shape)
    if weights is not None:
        share = e.op("gather", weights, safe, axis=0, from_end=False)
        loss = e.op("mul", loss, share)
    if smoothing:
        spread = logs if weights is None else e.map("mul", logs, weights)
        total = Term(e, e.op("reduce_sum", spread, axes=(1,), keepdims=False))
        classes = float(int(scores.type.shape[1]))  # type: ignore[arg-type]
        loss = (Term(e, loss) * (1 - smoothing) + total * (smoothing / classes)).value
    loss = counts.where(-Term(e, loss), 0.0).value
    return loss, counts.where(Term(e, share), 0.0).value


def _picked(c: Call, logs: Value, target: Value) -> Value:
    at = c.e.unsqueeze(target, 1)
    return c.e.squeeze(c.e.op("gather_elements", logs, at, axis=1, from_end=False), [1])


def _linear_cross_entropy(c: Call) -> list[Value | None]:
    """Only the loss: its gradients, which torch may compute along with it, are left out."""
    loss, share = _class_losses(c, float(c.number("label_smoothing")))
    total = c.e.op("reduce_sum", loss, axes=(0,), keepdims=False)
    if c["reduction"] == "mean":
        total = c.e.op("div", total, c.e.op("reduce_sum", share, axes=(0,), keepdims=False))
    return [c.e.cast(total, c.dtype_of(0)), *[None] * (len(c.metas) - 1)]


def _linear_cross_entropies(c: Call) -> Value:
    return c.e.cast(_class_losses(c, 0.0)[0], c.dtype)



_CHUNKED = "torch_nn::_linear_cross_entropy_batch_chunked"
RULES: dict[str, Rule] = {
    "cdist": _distances, "_cdist_forward": _distances, "_euclidean_dist": _distances,
    "_pdist_forward": _pair_distances, "pdist": _pair_distances,
    "_embedding_bag": _embedding_bag, "_embedding_bag_forward_only": _embedding_bag,
    "embedding_renorm": _embedding_renorm,
    _CHUNKED: _linear_cross_entropy, f"{_CHUNKED}_no_reduction": _linear_cross_entropies,
}  # fmt: skip
