"""com.microsoft: normalisations fused with residuals, embeddings and activations.

Definitions: onnxruntime's ContribOperators. Statistics are computed in f32.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import table_norm
from cuvil.frontends.onnx.node import Handler, Item, Node, Refused
from cuvil.frontends.onnx.table_ms_dense import channels_first, channels_last
from cuvil.frontends.spread import spread_of
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I32, I64
from cuvil.sym.expr import Dim, floordiv, mul


def layer_norm(n: Node, x: Value, gamma: Value, beta: Value | None, eps: float) -> Value:
    """Over the last dim."""
    kind = x.type.dtype
    given = [n.e.cast(v, kind) for v in (gamma, beta) if v is not None]
    return n.e.op(
        "layer_norm", x, *given, axes_from=x.type.rank - 1, eps=eps, has_weight=True,
        has_bias=beta is not None,
    )  # fmt: skip


def rms_norm(n: Node, x: Value, gamma: Value, eps: float) -> Value:
    """Over the last dim."""
    gamma = n.e.cast(gamma, x.type.dtype)
    return n.e.op("rms_norm", x, gamma, axes_from=x.type.rank - 1, eps=eps, has_weight=True)


def _spread(n: Node, x: Value, like: Value) -> Value:
    """A residual of fewer rows, such as (1, S, H) or (S, H), over all of them."""
    if x.type.rank > like.type.rank:
        raise InvalidModelError(f"{n.op}: the skip {x.type} does not fit {like.type}")
    return n.e.broadcast(x, like.type.shape)


def _skip_sum(n: Node, bias: int) -> Value:
    total = n.e.op("add", n[0], _spread(n, n[1], n[0]))
    return n.e.map("add", total, n[bias]) if n.has(bias) else total


def _statistics(n: Node, total: Value, eps: float, centred: bool) -> list[Item | None]:
    """Mean and inverse deviation over the last dim, where the model uses them."""
    if not n.wants(1) and not n.wants(2):
        return [None, None]
    e, axes = n.e, (total.type.rank - 1,)
    wide = e.cast(total, F32)
    if centred:
        found = spread_of(e, wide, axes)
        return [found.mean, e.op("rsqrt", e.with_scalar("add", found.variance, eps))]
    mean = e.op("reduce_mean", wide, axes=axes, keepdims=True)
    square = e.op("reduce_mean", e.op("mul", wide, wide), axes=axes, keepdims=True)
    return [mean, e.op("rsqrt", e.with_scalar("add", square, eps))]


def _skip_layer_norm(n: Node) -> Sequence[Item | None]:
    eps = n.number("epsilon", 1e-12)
    total = _skip_sum(n, 4)
    out = layer_norm(n, total, n[2], n.optional(3), eps)
    return [out, *_statistics(n, total, eps, True), total]


def _skip_rms_norm(n: Node) -> Sequence[Item | None]:
    eps = n.number("epsilon", 1e-12)
    total = _skip_sum(n, 3)
    return [rms_norm(n, total, n[2], eps), *_statistics(n, total, eps, False), total]


def embedded(
    n: Node, words: Value, places: Value, segments: Value | None, position_ids: Value | None
) -> Value:
    """The sum of the embeddings of words, places and segments, [B, S, hidden]."""
    e, ids = n.e, n[0]
    if ids.type.rank != 2:
        raise InvalidModelError(f"{n.op} needs input_ids [batch, sequence], got {ids.type}")
    if position_ids is not None:
        at = e.broadcast(position_ids, ids.type.shape)
    else:
        at = e.op("iota", shape=ids.type.shape, axis=1, dtype=I64)
    total = e.op("add", e.op("gather", words, ids, axis=0), e.op("gather", places, at, axis=0))
    if segments is None:
        return total
    return e.op("add", total, e.op("gather", segments, n[1], axis=0))


def mask_index(n: Node, index: int) -> Value:
    """How many tokens of each row count: i32 [B], 0 without a mask."""
    e, batch = n.e, n[0].type.shape[0]
    if not n.has(index):
        return e.broadcast(e.scalar(0, I32), (batch,))
    ones = e.cast(e.with_scalar("eq", n[index], 1), I32)
    return e.op("reduce_sum", ones, axes=(1,), keepdims=False)


def _embed_layer_norm(n: Node) -> Sequence[Item | None]:
    segments = n.optional(4) if n.has(1) else None
    total = embedded(n, n[2], n[3], segments, n.optional(8))
    out = layer_norm(n, total, n[5], n[6], n.number("epsilon", 1e-12))
    return [out, mask_index(n, 7), total]


def _group_norm(n: Node, x: Value, gamma: Value, beta: Value) -> Value:
    """[N, H, W, C] (or [N, C, H, W]), then SiLU where asked for."""
    e, kind = n.e, x.type.dtype
    last = bool(n.integer("channels_last", 1))
    wide = e.cast(channels_first(n, x) if last else x, F32)
    out = e.op(
        "group_norm", wide, e.cast(gamma, F32), e.cast(beta, F32), groups=n.integer("groups"),
        eps=n.number("epsilon", 1e-5), has_weight=True, has_bias=True,
    )  # fmt: skip
    activation = n.integer("activation")
    if activation not in (0, 1):
        raise InvalidModelError(f"{n.op}: activation {activation} is neither 0 nor 1")
    out = e.op("silu", out) if activation else out
    return e.cast(channels_last(n, out) if last else out, kind)


def _skip_group_norm(n: Node) -> list[Value]:
    e, x, skip = n.e, n[0], n[3]
    if skip.type.rank == 2:
        rows, channels = skip.type.shape
        last = n.integer("channels_last", 1)
        skip = e.reshape(skip, (rows, 1, 1, channels) if last else (rows, channels, 1, 1))
    total = e.map("add", x, skip)
    if n.has(4):
        bias = n[4]
        if not n.integer("channels_last", 1):
            bias = e.reshape(bias, (*bias.type.shape, 1, 1))
        total = e.map("add", total, bias)
    return [_group_norm(n, total, n[1], n[2]), total]


def _gated_rms_norm(n: Node) -> Value:
    """rms_norm over runs of the scale's length, times silu (or sigmoid) of the gate."""
    e, x, scale = n.e, n[0], n[1]
    name = n.text("activation", "silu")
    if name not in ("silu", "swish", "sigmoid"):
        raise Refused(f"activation {name!r}", "use silu or sigmoid")
    size, width = scale.type.shape[0], x.type.shape[-1]
    heads: Dim = 1 if size == width else e.simplify(floordiv(width, size))
    e.context.require(mul(heads, size), "==", width, f"{n.op}: whole runs of the scale")
    wide = e.reshape(e.cast(x, F32), (*x.type.shape[:-1], heads, size))
    out = rms_norm(n, wide, scale, n.number("epsilon", 1e-5))
    gate = e.cast(n[2], F32)
    gate = e.op("sigmoid", gate) if name == "sigmoid" else e.op("silu", gate)
    return e.cast(e.op("mul", e.reshape(out, x.type.shape), gate), x.type.dtype)


TABLE: dict[str, Handler] = {
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "SimplifiedLayerNormalization": table_norm.simplified,
    "EmbedLayerNormalization": _embed_layer_norm,
    "GroupNorm": lambda n: _group_norm(n, n[0], n[1], n[2]),
    "SkipGroupNorm": _skip_group_norm,
    "GatedRMSNorm": _gated_rms_norm,
}
