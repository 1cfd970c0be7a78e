"""com.microsoft: shapes, indices, distances and what else has no family of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.frontends.onnx.table_movement import TABLE as MOVEMENT
from cuvil.frontends.onnx.table_sample import TABLE as SAMPLE
from cuvil.frontends.onnx.table_select import TABLE as SELECT
from cuvil.frontends.onnx.table_shape import TABLE as SHAPE
from cuvil.frontends.onnx.table_signal import TABLE as SIGNAL
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, I32, U32, U64

_OPSET = 21


def _as_onnx(table: Mapping[str, Handler], op: str) -> Handler:
    """An operator that ONNX has as well."""
    return lambda n: table[op](n.with_inputs(n.inputs, op=op, version=_OPSET))


def _range(n: Node) -> Value:
    """Range with its three inputs of any rank with one element; the step may be left out."""
    step = n[2] if n.has(2) else n.e.scalar(1, n.dtype())
    flat = [n.e.reshape(v, ()) for v in (n[0], n[1], step)]
    out = SHAPE["Range"](n.with_inputs(flat, op="Range", version=_OPSET))
    assert isinstance(out, Value)
    return out


def _expand_dims(n: Node) -> Value:
    axis = n.static(1, "the axis")[0]
    rank = n[0].type.rank
    if not -rank - 1 <= axis <= rank:
        raise InvalidModelError(f"ExpandDims: axis {axis} is outside rank {rank + 1}")
    return n.e.unsqueeze(n[0], axis)


def _pad(n: Node) -> Value:
    pads = n.e.reshape(n[1], (n[1].type.elements,))
    node = n.with_inputs([n[0], pads, *n.inputs[2:]], op="Pad", version=_OPSET)
    out = MOVEMENT["Pad"](node)
    assert isinstance(out, Value)
    return out


def _unique(n: Node) -> list[Value]:
    """Distinct elements in the order of their first place, each element's index in them, and how
    often each is there."""
    node = n.with_inputs(n.inputs, {"sorted": 0}, "Unique", _OPSET)
    node.outputs = [*n.outputs[:1], "", *n.outputs[1:]]  # ONNX's has the first places as well
    found = SELECT["Unique"](node)
    assert isinstance(found, list)
    return [found[0], found[2], found[3]]


def _cdist(n: Node) -> Value:
    """The distance of each row of A to each of B, [M, K]; from differences, not from products,
    which would cancel."""
    e, metric = n.e, n.text("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise Refused(f"metric {metric!r}", "use 'euclidean' or 'sqeuclidean'")
    away = e.map("sub", e.unsqueeze(n[0], 1), e.unsqueeze(n[1], 0))
    total = e.op("reduce_sum", e.op("mul", away, away), axes=(2,), keepdims=False)
    return e.op("sqrt", total) if metric == "euclidean" else total


def _ngram_repeat(n: Node) -> Value:
    """-inf for each token that would repeat an n-gram of the row if it came next."""
    e, ids, scores = n.e, n[0], n[1]
    count = n.integer("ngram_size")
    length = n.size(ids.type.shape, 1, "the length of input_ids")
    starts = length - count + 1
    if count < 1:
        raise InvalidModelError(f"{n.op}: ngram_size {count}")
    if starts <= 0:
        return scores
    same: Value | None = None
    for i in range(count - 1):
        before = e.slice(ids, 1, i, i + starts)
        last = e.slice(ids, 1, starts + i, starts + i + 1)
        equal = e.map("eq", before, last)
        same = equal if same is None else e.op("and", same, equal)
    banned = e.slice(ids, 1, count - 1, length)
    vocabulary = e.op("iota", shape=(1, 1, scores.type.shape[1]), axis=2, dtype=ids.type.dtype)
    hit = e.map("eq", e.unsqueeze(banned, 2), vocabulary)
    hit = hit if same is None else e.map("and", hit, e.unsqueeze(same, 2))
    found = e.op("reduce_any", hit, axes=(1,), keepdims=False)
    return e.map("select", found, e.scalar(-math.inf, scores.type.dtype), scores)


def _complex(n: Node, index: int) -> tuple[Value, Value]:
    x, last = n[index], n[index].type.rank - 1
    n.e.context.same(x.type.shape[last], 2, f"{n.op}: real and imaginary part")
    return tuple(n.e.slice(x, last, i, i + 1) for i in range(2))  # type: ignore[return-value]


def _complex_mul(sign: float) -> Handler:
    """(a + bi) (c + di), or with the conjugate of the second."""

    def handle(n: Node) -> Value:
        e = n.e
        (a, b), (c, d) = _complex(n, 0), _complex(n, 1)
        d = d if sign > 0 else e.op("neg", d)
        real = e.map("sub", e.map("mul", a, c), e.map("mul", b, d))
        imag = e.map("add", e.map("mul", a, d), e.map("mul", b, c))
        return e.op("concat", real, imag, axis=real.type.rank - 1)

    return handle


def _rfft(n: Node) -> Value:
    """[..., N] to [..., N / 2 + 1, 2]."""
    if not n.integer("onesided", 1) or n.integer("normalized", 0):
        raise Refused("a spectrum that is two-sided or normalised", "use DFT")
    if n.integer("signal_ndim", 1) != 1:
        raise Refused("transforms of more than one dimension", "use one DFT a dimension")
    axis = n.e.weight(np.asarray(n[0].type.rank - 1, np.int64))
    attrs = {"onesided": 1, "inverse": 0}
    node = n.with_inputs([n.e.unsqueeze(n[0], -1), None, axis], attrs, "DFT", _OPSET)
    out = SIGNAL["DFT"](node)
    assert isinstance(out, Value)
    return out


def _is_all_finite(n: Node) -> Value:
    """Whether no element of any input is NaN or infinite (or only the one kind asked about)."""
    e = n.e
    nan_only, inf_only = n.integer("isnan_only", 0), n.integer("isinf_only", 0)
    fine = e.scalar(True, BOOL)
    for x in n.values():
        bad: Value | None = None
        if not inf_only:
            bad = e.op("isnan", x)
        if not nan_only:
            infinite = e.op("isinf", x)
            bad = infinite if bad is None else e.op("or", bad, infinite)
        assert bad is not None
        axes = tuple(range(x.type.rank))
        some = e.op("reduce_any", bad, axes=axes, keepdims=False) if axes else bad
        fine = e.op("and", fine, e.op("not", some))
    return fine


def _embedding(n: Node) -> Value:
    return n.e.op("gather", n[0], n[1], axis=0)


def _unfold(n: Node) -> Value:
    """Windows of ``size`` every ``step`` along a dim, as a new last dim (torch.Tensor.unfold)."""
    e, x = n.e, n[0]
    dim, size, step = n.axis("dim", -1, x.type.rank), n.integer("size"), n.integer("step", 1)
    length = n.size(x.type.shape, dim, "the unfolded dimension")
    if size < 1 or step < 1 or size > length:
        raise InvalidModelError(f"{n.op}: windows of {size} every {step} in {length}")
    starts = np.arange(0, length - size + 1, step)
    places = e.weight((starts[:, None] + np.arange(size)).astype(np.int64))
    windows = e.op("gather", x, places, axis=dim)
    rank = windows.type.rank
    order = [i for i in range(rank) if i != dim + 1]
    return e.transpose(windows, (*order, dim + 1))


def _rotate(n: Node, x: Value, by: int) -> Value:
    high = n.e.with_scalar("shl", x, by)
    return n.e.op("or", high, n.e.with_scalar("shr", x, 32 - by))


def _murmur(n: Node) -> Value:
    """MurmurHash3_x86_32 of each element's bytes (A. Appleby, public domain)."""
    e, x = n.e, n[0]
    if not x.type.dtype.is_integer or x.type.dtype.size < 4:
        raise Refused(f"the hash of {x.type.dtype}", "hash 32 or 64 bit integers")
    words = [e.cast(x, U32)]
    if x.type.dtype.size == 8:
        words.append(e.cast(e.with_scalar("shr", e.cast(x, U64), 32), U32))
    state = e.broadcast(e.scalar(n.integer("seed", 0) & 0xFFFFFFFF, U32), x.type.shape)
    for word in words:
        mixed = _rotate(n, e.with_scalar("mul", word, 0xCC9E2D51), 15)
        state = e.op("xor", state, e.with_scalar("mul", mixed, 0x1B873593))
        state = e.with_scalar("mul", _rotate(n, state, 13), 5)
        state = e.with_scalar("add", state, 0xE6546B64)
    state = e.with_scalar("xor", state, x.type.dtype.size)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = e.op("xor", state, e.with_scalar("shr", state, shift))
        state = e.with_scalar("mul", state, factor)
    state = e.op("xor", state, e.with_scalar("shr", state, 16))
    return state if n.integer("positive", 1) else e.cast(state, I32)


def _relative_bias(n: Node) -> Value:
    """T5's binned distances looked up for key - query, [1, heads, Q, K] (Raffel et al. 2020;
    transformers' T5Attention).

    The table is declared [buckets, heads] but stored by columns, as onnxruntime's fusion of T5
    writes it: the elements of one head lie together.
    """
    table = n[0]
    buckets = n.size(table.type.shape, 0, "the number of buckets")
    queries, keys = (n.size((n.dims(i, "a length")[0],), 0, "a length") for i in (1, 2))
    far = n.integer("max_distance")
    index = _buckets(queries, keys, buckets, far, bool(n.integer("is_bidirectional", 0)))
    by_head = n.e.reshape(table, (table.type.shape[1], buckets))
    return n.e.unsqueeze(n.e.op("gather", by_head, n.e.weight(index), axis=1), 0)


def _buckets(queries: int, keys: int, count: int, far: int, both: bool) -> np.ndarray:
    distance = np.arange(keys)[None] - np.arange(queries)[:, None]
    start = np.zeros_like(distance)
    if both:
        count //= 2
        start = (distance > 0) * count
        distance = np.abs(distance)
    else:
        distance = -np.minimum(distance, 0)
    exact = count // 2
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    wide = exact + (ratio / np.float32(math.log(far / exact)) * (count - exact)).astype(np.int64)
    wide = np.minimum(wide, count - 1)
    return np.asarray(start + np.where(distance < exact, distance, wide), np.int64)


TABLE: dict[str, Handler] = {
    "Trilu": _as_onnx(SHAPE, "Trilu"),
    "GatherND": _as_onnx(MOVEMENT, "GatherND"),
    "GridSample": _as_onnx(SAMPLE, "GridSample"),
    "Range": _range,
    "Pad": _pad,
    "Unique": _unique,
    "ExpandDims": _expand_dims,
    "CDist": _cdist,
    "NGramRepeatBlock": _ngram_repeat,
    "ComplexMul": _complex_mul(1.0),
    "ComplexMulConj": _complex_mul(-1.0),
    "Rfft": _rfft,
    "IsAllFinite": _is_all_finite,
    "TorchEmbedding": _embedding,
    "UnfoldTensor": _unfold,
    "MurmurHash3": _murmur,
    "RelativePositionBias": _relative_bias,
}
