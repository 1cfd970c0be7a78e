"""com.microsoft.GroupQueryAttention: decoders' attention with a cache and rotary embedding.

Row b has T = seqlens_k[b] + 1 keys after the step, of which max(T - S, 0) were cached before it.
The cache's length P and the step's S are shapes; where each row's new keys go is data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.attention_parts import (
    Scores,
    attend,
    default_scale,
    explicit_scores,
    join_heads,
    rotated,
    split_heads,
)
from cuvil.frontends.onnx.node import Handler, Item, Node, Refused
from cuvil.frontends.onnx.table_movement import part
from cuvil.frontends.onnx.table_ms_norm import rms_norm
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I64
from cuvil.sym.expr import Dim, add, maximum, mul


def _check(n: Node) -> None:
    """What is refused, each with its reason."""
    cached = n.optional(3)
    quantized = any(n.text(f"{x}_quant_type", "NONE") != "NONE" for x in "kv")
    if quantized or (cached is not None and not cached.type.dtype.is_float):
        raise Refused("a quantized cache", "keep the cache in the type of the queries")
    if n.integer("sliding_window_cache", 0):
        raise Refused("a cache of the window's size", "keep the whole cache")
    if n.has(16):
        raise Refused("right-padded chunks (query_seqlens)", "run each prompt with its own length")


def _heads_of(n: Node) -> tuple[Value, Value, Value]:
    """q [B, H, S, D], k and v [B, Hk, S, D], from three tensors or a packed one."""
    heads, shared = n.integer("num_heads"), n.integer("kv_num_heads")
    if n.has(1):
        return (
            split_heads(n, n[0], heads), split_heads(n, n[1], shared), split_heads(n, n[2], shared)
        )  # fmt: skip
    width = n.size(n[0].type.shape, 2, "the packed width")
    if width % (heads + 2 * shared):
        raise InvalidModelError(f"{n.op}: {width} elements in {heads} + 2 * {shared} heads")
    size = width // (heads + 2 * shared)
    x = n[0]
    q = part(n, x, 2, 0, heads * size)
    k = part(n, x, 2, heads * size, shared * size)
    v = part(n, x, 2, (heads + shared) * size, shared * size)
    return split_heads(n, q, heads), split_heads(n, k, shared), split_heads(n, v, shared)


class _Step:
    """Where the rows of one call lie: ``before`` i64 [B, 1] keys were cached in each row."""

    def __init__(self, n: Node, rows: Dim) -> None:
        e = n.e
        self.n, self.rows = n, rows
        cached = n.optional(3)
        self.cache: Dim = cached.type.shape[2] if cached is not None else 0
        self.total = n.sizes(6, "the total sequence length")[0]
        ends = e.unsqueeze(e.cast(e.reshape(n[5], (n[0].type.shape[0],)), I64), 1)
        count = e.dims([e.simplify(add(rows, -1))], scalar=True)
        self.before = e.with_scalar("max", e.map("sub", ends, count), 0)
        self.length = e.simplify(maximum(self.cache, self.total))
        steps = e.op("iota", shape=(1, rows), axis=1, dtype=I64)
        self.places = e.map("add", steps, self.before)

    def joined(self, past: Value | None, new: Value) -> Value:
        """[B, Hk, length, D]: cached rows, then the new ones at ``before``."""
        e = self.n.e
        if self.cache == 0 and self.length == self.rows:
            return new
        batch, heads, _, size = new.type.shape
        old = e.broadcast(e.scalar(0, new.type.dtype), (batch, heads, self.length, size))
        if past is not None:
            more = e.simplify(add(self.length, _negative(self.cache)))
            old = past if more == 0 else e.op("pad", past, lo=(0,) * 4, hi=(0, 0, more, 0))
        index = e.broadcast(e.reshape(self.places, (batch, 1, self.rows, 1)), new.type.shape)
        return e.op("scatter_elements", old, index, new, axis=2)

    def _count(self) -> Value:
        return self.n.e.dims([self.rows], scalar=True)

    def mask(self, window: int, causal: bool) -> Value:
        """bool [B, 1, S, length]: the keys that each query sees."""
        n, e = self.n, self.n.e
        batch = n[0].type.shape[0]
        key = e.op("iota", shape=(1, 1, 1, self.length), axis=3, dtype=I64)
        place = e.reshape(self.places, (batch, 1, self.rows, 1))
        if not causal:
            end = e.map("add", self.before, self._count())
            return e.map("lt", key, e.reshape(end, (batch, 1, 1, 1)))
        seen = e.map("le", key, place)
        if window > 0:
            first = e.with_scalar("sub", place, window)
            seen = e.map("and", seen, e.map("gt", key, first))
        return seen


def _negative(value: Dim) -> Dim:
    return mul(value, -1)


def _normalised(n: Node, q: Value, k: Value) -> tuple[Value, Value]:
    """RMS norm of each head of q and k (Qwen3), before their rotation."""
    if not n.has(14):
        return q, k
    shared = n.number("qk_norm_epsilon", 1e-6)
    q = rms_norm(n, q, n[14], n.number("q_norm_epsilon", shared))
    return q, rms_norm(n, k, n[15], n.number("k_norm_epsilon", shared))


def _turned(n: Node, step: _Step, x: Value) -> Value:
    if not n.integer("do_rotary", 0):
        return x
    places = n.e.cast(n[9], I64) if n.has(9) else step.places
    width = 2 * n.size(n[7].type.shape, 1, "the width of its caches")
    interleaved = bool(n.integer("rotary_interleaved", 0))
    return rotated(n, x, n[7], n[8], places, interleaved, width)


def _with_sink(
    n: Node, k: Value, v: Value, mask: Value, heads: int
) -> tuple[Value, Value, Value]:
    """Keys, values and an additive mask with one key more, whose score is the head's sink.

    exp(sink) joins the softmax's sum, and the value behind it is 0.
    """
    e = n.e
    sink = n[11] if n.has(11) else e.broadcast(e.scalar(0.0, F32), (heads,))
    more = {"lo": (0,) * 4, "hi": (0, 0, 1, 0)}
    batch, _, rows, length = mask.type.shape
    wide = e.broadcast(mask, (batch, heads, rows, length))
    column = e.broadcast(
        e.reshape(e.cast(sink, mask.type.dtype), (1, heads, 1, 1)), (batch, heads, rows, 1)
    )
    wide = e.op("concat", wide, column, axis=3)
    return e.op("pad", k, **more), e.op("pad", v, **more), wide


def _group_query(n: Node) -> Sequence[Item | None]:
    _check(n)
    e, heads = n.e, n.integer("num_heads")
    q, k, v = _heads_of(n)
    q, k = _normalised(n, q, k)
    step = _Step(n, q.type.shape[2])
    q, k = _turned(n, step, q), _turned(n, step, k)
    keys, values = step.joined(n.optional(3), k), step.joined(n.optional(4), v)
    mask = step.mask(n.integer("local_window_size", -1), bool(n.integer("causal", 1)))
    scale = default_scale(n, q.type.shape[3])
    present = [keys, values]
    sinks = n.has(11) or n.integer("smooth_softmax", -1) > 0
    if n.has(10) or sinks:
        zero, hidden = (e.scalar(x, F32) for x in (0.0, -np.inf))
        mask = e.map("select", mask, zero, hidden)
    if n.has(10):
        bias = e.cast(n[10], F32)
        more = e.simplify(add(step.length, _negative(bias.type.shape[3])))
        bias = bias if more == 0 else e.op("pad", bias, lo=(0,) * 4, hi=(0, 0, 0, more))
        mask = e.map("add", mask, bias)
    if sinks:
        if n.number("softcap", 0.0):
            raise Refused("a sink together with a softcap", "leave one of them out")
        keys, values, mask = _with_sink(n, keys, values, mask, heads)
    scores = Scores(scale, mask, None, n.number("softcap", 0.0))
    out = join_heads(n, attend(n, q, keys, values, scores))
    return [out, *present, *_weights(n, q, keys, scores)]


def _weights(n: Node, q: Value, keys: Value, scores: Scores) -> list[Value]:
    kind = n.integer("qk_output", 0)
    if not kind or not n.wants(3):
        return []
    if kind == 2:
        return [n.e.op("softmax", explicit_scores(n, q, keys, scores), axis=3)]
    raise Refused("scores before the softmax as an output", "ask for those after it")


TABLE: dict[str, Handler] = {"GroupQueryAttention": _group_query}
