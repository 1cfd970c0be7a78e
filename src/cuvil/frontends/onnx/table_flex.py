"""FlexAttention: attention whose scores and probabilities pass through graphs of the model's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Item, Node
from cuvil.frontends.onnx.types import dtype_from
from cuvil.ir.core import Value
from cuvil.ir.types import F32, DType

DOMAIN = "ai.onnx.preview"
Inline = Callable[[Any, Mapping[str, Item | None]], list[Item | None]]


def flex_attention(n: Node, inline: Inline) -> Sequence[Item | None]:
    """prob_mod(softmax(score_mod(Q K' * scale))) V (FlexAttention-1).

    Scores are kept in the softmax's precision, and not in less than f32.
    """
    e = n.e
    q, k, v = (n[i] for i in range(3))
    if {x.type.rank for x in (q, k, v)} != {4}:
        raise InvalidModelError(f"FlexAttention needs tensors of rank 4: {q.type}, {k.type}")
    depth = n.size(q.type.shape, 3, "the size of a head")
    usual = 1 / math.sqrt(depth) if depth else 1.0
    scale = n.number("scale") if "scale" in n.attrs else usual
    if "score_mod" not in n.attrs and "prob_mod" not in n.attrs:
        return [e.op("attention", q, k, v, scale=scale, causal=False, has_mask=False)]
    asked = n.integer("softmax_precision", 0)
    precision = dtype_from(asked) if asked else q.type.dtype
    wide = precision if precision.size >= 4 else F32
    batch, heads, length, _ = q.type.shape
    shared = n.size(k.type.shape, 1, "the number of heads of the keys")
    group = n.size(q.type.shape, 1, "the number of heads") // max(shared, 1)
    if shared * group != heads:
        raise InvalidModelError(f"FlexAttention: {heads} heads share {shared}")
    k, v = (_repeated(n, x, group) for x in (k, v))
    scores = e.op("matmul", e.cast(q, wide), e.transpose(e.cast(k, wide), (0, 1, 3, 2)))
    scores = e.with_scalar("mul", scores, scale)
    shape = (batch, heads, length, k.type.shape[2])
    found = _modified(n, inline, "score_mod", scores, precision)
    if found is None:
        return [None]
    probabilities = e.op("softmax", e.cast(e.reshape(found, shape), wide), axis=3)
    found = _modified(n, inline, "prob_mod", probabilities, precision)
    if found is None:
        return [None]
    out = e.op("matmul", e.cast(e.reshape(found, shape), wide), e.cast(v, wide))
    return [e.cast(out, q.type.dtype)]


def _repeated(n: Node, x: Value, group: int) -> Value:
    """Each head as often as query heads share it, one after the other."""
    if group == 1:
        return x
    batch, heads, length, size = x.type.shape
    apart = n.e.broadcast(n.e.unsqueeze(x, 2), (batch, heads, group, length, size))
    total = n.size(x.type.shape, 1, "the number of heads of the keys") * group
    return n.e.reshape(apart, (batch, total, length, size))


def _modified(n: Node, inline: Inline, name: str, x: Value, precision: DType) -> Value | None:
    """The graph of an attribute on x, x itself where there is none; None if it was refused."""
    graph = n.attrs.get(name)
    if graph is None:
        return x
    if len(graph.input) != 1 or len(graph.output) != 1:
        raise InvalidModelError(f"FlexAttention: {name} takes one tensor and gives one")
    (out,) = inline(graph, {graph.input[0].name: n.e.cast(x, precision)})
    if out is None:
        return None
    if not isinstance(out, Value) or out.type.shape != x.type.shape:
        raise InvalidModelError(f"FlexAttention: {name} changes the shape of {x.type}")
    return out
