"""Attention as one operator of ours, where it is no more than that."""

from __future__ import annotations

import math

from cuvil.frontends.onnx.node import Handler, Node
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL
from cuvil.sym.expr import mul

# Scores are kept in f32 at least, whatever softmax_precision asks for.
_KNOWN = {
    "is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap",
    "softmax_precision",
}  # fmt: skip


def _attention(n: Node) -> Value | None:
    """softmax(Q K' * scale + mask) V (Attention-23), or None where it caches keys, caps or gives
    out its scores, or its mask is shorter than the keys: ONNX's function of it is taken then."""
    rest = any(n.has(i) for i in range(4, 7)) or any(n.wants(i) for i in range(1, 4))
    q, k, v = (n[i] for i in range(3))
    ranks, types = {x.type.rank for x in (q, k, v)}, {x.type.dtype for x in (q, k, v)}
    rest = rest or not n.attrs.keys() <= _KNOWN
    if rest or n.number("softcap", 0.0) or len(types) != 1 or len(ranks) != 1:
        return None
    flat = ranks == {3}
    if flat:
        q = _heads(n, q, n.integer("q_num_heads"))
        k, v = (_heads(n, x, n.integer("kv_num_heads")) for x in (k, v))
    depth = q.type.shape[3] if q.type.rank == 4 else None
    if not isinstance(depth, int) or depth == 0:
        return None
    operands = [q, k, v]
    if n.has(3):
        mask = n[3]
        known = mask.type.rank >= 2 and mask.type.shape[-1] == k.type.shape[2]
        if not known or (mask.type.dtype != BOOL and not mask.type.dtype.is_float):
            return None
        operands.append(mask)
    scale = n.number("scale") if "scale" in n.attrs else 1 / math.sqrt(depth)
    out = n.e.op(
        "attention", *operands, scale=scale,
        causal=bool(n.integer("is_causal", 0)), has_mask=n.has(3),
    )  # fmt: skip
    if not flat:
        return out
    batch, heads, length, size = out.type.shape
    turned = n.e.transpose(out, (0, 2, 1, 3))
    return n.e.reshape(turned, (batch, length, mul(heads, size)))


def _heads(n: Node, x: Value, heads: int) -> Value:
    """[B, S, heads * size] to [B, heads, S, size]."""
    batch, length, _ = x.type.shape
    size = n.size(x.type.shape, 2, "the width of its inputs") // heads
    split = n.e.reshape(x, (batch, length, heads, size))
    return n.e.transpose(split, (0, 2, 1, 3))


TABLE: dict[str, Handler] = {"Attention": _attention}
