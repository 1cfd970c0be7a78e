"""com.microsoft: attention over whole sequences, with or without a cache.

Definitions: onnxruntime's ContribOperators. Masks are added to the scores as onnxruntime does it:
a hidden key gets ``mask_filter_value``, not -inf, so a row without a visible key has weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import table_linear
from cuvil.frontends.onnx.attention_parts import (
    Scores,
    added,
    appended,
    attend,
    default_scale,
    explicit_scores,
    join_heads,
    padding_mask,
    rotated,
    split_heads,
)
from cuvil.frontends.onnx.node import Handler, Item, Node, Refused
from cuvil.frontends.onnx.table_movement import part
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim, add

_SHARED = "keep past and present as tensors of their own"


def _refuse_shared(n: Node, *indices: int) -> None:
    if n.integer("past_present_share_buffer", 0) or any(n.has(i) for i in indices):
        raise Refused("past and present in one buffer of the caller", _SHARED)


def fused_projection(n: Node, qkv: Value) -> list[Value]:
    """The last dim of [B, S, q + k + v] as three tensors of heads."""
    heads = n.integer("num_heads")
    width = n.size(qkv.type.shape, 2, "the width of its weights")
    sizes = n.integers("qkv_hidden_sizes", []) or [width // 3] * 3
    if sum(sizes) != width or len(sizes) != 3:
        raise InvalidModelError(f"{n.op}: hidden sizes {sizes} of {width} columns")
    at, out = 0, []
    for size in sizes:
        out.append(split_heads(n, part(n, qkv, 2, at, size), heads))
        at += size
    return out


def self_attention(
    n: Node, qkv: Value, mask: Value | None, past: Value | None, bias: Value | None
) -> list[Item | None]:
    """Attention and QAttention behind their projection; ``past`` [2, B, H, P, D]."""
    e = n.e
    if n.integer("do_rotary", 0):
        raise Refused("rotary embedding inside Attention", "use RotaryEmbedding before it")
    q, k, v = fused_projection(n, qkv)
    before: Dim = 0
    if past is not None:
        if past.type.rank != 5:
            raise InvalidModelError(f"{n.op}: past {past.type} is not [2, B, H, P, D]")
        before = past.type.shape[3]
        k, v = (
            appended(n, e.squeeze(part(n, past, 0, i, 1), [0]), x) for i, x in enumerate((k, v))
        )
    total, rows = k.type.shape[2], q.type.shape[2]
    fill = n.number("mask_filter_value", -10000.0)
    hidden = padding_mask(n, mask, total, rows, fill) if mask is not None else None
    causal = before if n.integer("unidirectional", 0) else None
    scale = default_scale(n, q.type.shape[3])
    out = attend(n, q, k, v, Scores(scale, added(n, hidden, bias), causal))
    present = None
    if n.wants(1):
        present = e.op("concat", e.unsqueeze(k, 0), e.unsqueeze(v, 0), axis=0)
    return [join_heads(n, out), present]


def _attention(n: Node) -> Sequence[Item | None]:
    _refuse_shared(n, 6)
    qkv = table_linear.matmul(n, n[0], n[1])
    qkv = n.e.map("add", qkv, n[2]) if n.has(2) else qkv
    return self_attention(n, qkv, n.optional(3), n.optional(4), n.optional(5))


def _biases(n: Node, bias: Value | None, sizes: Sequence[Dim]) -> list[Value | None]:
    """The parts of a bias [q + k + v]."""
    if bias is None:
        return [None] * 3
    out: list[Value | None] = []
    at = 0
    for size in sizes:
        assert isinstance(size, int)
        out.append(part(n, bias, 0, at, size))
        at += size
    return out


def _unpacked(n: Node, x: Value, count: int) -> list[Value]:
    """[B, S, H, count, D] as ``count`` tensors [B, S, H * D]."""
    batch, length, _, packed, _ = x.type.shape
    n.e.context.same(packed, count, f"{n.op}: the packed dimension")
    flat = (batch, length, n.size(x.type.shape, 2, "heads") * n.size(x.type.shape, 4, "head size"))
    return [n.e.reshape(part(n, x, 3, i, 1), flat) for i in range(count)]


def _with_bias(n: Node, x: Value, bias: Value | None) -> Value:
    return x if bias is None else n.e.map("add", x, bias)


def _operands(n: Node, bias: Value | None) -> tuple[Value, Value, Value]:
    """q, k and v as [B, H, S, D], from each of the forms that MultiHeadAttention takes."""
    heads = n.integer("num_heads")
    q = n[0]
    flat: list[Value]
    if q.type.rank == 5:
        flat = _unpacked(n, q, 3)
    elif n.has(1) and n[1].type.rank == 5:
        flat = [q, *_unpacked(n, n[1], 2)]
    elif not n.has(1):
        raise Refused("queries, keys and values side by side", "split them before the node")
    else:
        flat = [q, n[1], n[2]]
    widths = [
        x.type.shape[2] if x.type.rank == 3 else
        n.size(x.type.shape, 1, "heads") * n.size(x.type.shape, 3, "head size")
        for x in flat
    ]  # fmt: skip
    biases = _biases(n, bias, widths)
    out = []
    for x, b in zip(flat, biases, strict=True):
        # Keys and values that come as heads are a cache: their bias is in them already.
        out.append(split_heads(n, _with_bias(n, x, b), heads) if x.type.rank == 3 else x)
    return out[0], out[1], out[2]


def _multi_head(n: Node) -> Sequence[Item | None]:
    _refuse_shared(n, 8, 9)
    qkv = _operands(n, n.optional(3))
    return _heads_attention(n, qkv, n.optional(4), n.optional(5), (n.optional(6), n.optional(7)))


def _decoder_masked(n: Node) -> Sequence[Item | None]:
    """MultiHeadAttention for one new token, with its inputs in another order."""
    _refuse_shared(n, 7, 8, 9)
    qkv = _operands(n, n.optional(10))
    return _heads_attention(n, qkv, n.optional(3), n.optional(4), (n.optional(5), n.optional(6)))


def _heads_attention(
    n: Node,
    qkv: tuple[Value, Value, Value],
    mask: Value | None,
    bias: Value | None,
    past: tuple[Value | None, Value | None],
) -> Sequence[Item | None]:
    q, k, v = qkv
    k, v = appended(n, past[0], k), appended(n, past[1], v)
    total, rows = k.type.shape[2], q.type.shape[2]
    fill = n.number("mask_filter_value", -10000.0)
    hidden = padding_mask(n, mask, total, rows, fill) if mask is not None else None
    before: Dim = past[0].type.shape[2] if past[0] is not None else 0
    causal = before if n.integer("unidirectional", 0) else None
    if causal is not None:
        _same_sequence(n, add(before, rows), total)
    scores = Scores(default_scale(n, q.type.shape[3]), added(n, hidden, bias), causal)
    out = join_heads(n, attend(n, q, k, v, scores))
    weights = explicit_scores(n, q, k, scores) if n.wants(3) else None
    return [out, k, v, weights]


def _same_sequence(n: Node, queries: Dim, keys: Dim) -> None:
    """Which keys are earlier is known only where queries and keys are of one sequence."""
    if isinstance(queries, int) and isinstance(keys, int) and queries != keys:
        raise Refused("a causal mask over the keys of another sequence", "mask the keys instead")
    n.e.context.require(queries, "==", keys, f"{n.op}: a causal mask is over one sequence")


def _rotary(n: Node) -> Value:
    """Rotary embedding of [B, S, hidden] or [B, H, S, D]; one position means the first one."""
    e, x, cos = n.e, n[0], n[2]
    if n.integer("is_packed_batching", 0):
        raise Refused("packed batches", "give each sequence a row of its own")
    half = n.size(cos.type.shape, 1, "the width of its caches")
    width = n.integer("rotary_embedding_dim", 0) or 2 * half
    flat = x.type.rank == 3
    if flat:
        hidden = n.size(x.type.shape, 2, "the width of its input")
        heads = n.integer("num_heads", 0) or hidden // (2 * half)
        x = split_heads(n, x, heads)
    places = e.cast(n[1], I64)
    if places.type.rank == 1:
        steps = e.op("iota", shape=(1, x.type.shape[2]), axis=1, dtype=I64)
        places = e.map("add", steps, e.reshape(places, ()))
    out = rotated(n, x, cos, n[3], places, bool(n.integer("interleaved", 0)), width)
    return join_heads(n, out) if flat else out


TABLE: dict[str, Handler] = {
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "DecoderMaskedMultiHeadAttention": _decoder_masked,
    "RotaryEmbedding": _rotary,
}
