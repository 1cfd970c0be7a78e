"""What the attention operators of com.microsoft have in common: heads, masks, caches, rotation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Node, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F32, I64
from cuvil.sym.expr import Dim, add, mul


@dataclass(frozen=True)
class Scores:
    """What happens to q k' between the products.

    ``mask`` is bool (False hides) or float (added), over [B, H, S, T]; with ``causal`` query i
    sees key j when j <= i + causal.
    """

    scale: float
    mask: Value | None = None
    causal: Dim | None = None
    softcap: float = 0.0


def split_heads(n: Node, x: Value, heads: int) -> Value:
    """[B, S, heads * size] to [B, heads, S, size]."""
    if x.type.rank != 3:
        raise InvalidModelError(f"{n.op} needs [batch, sequence, hidden], got {x.type}")
    batch, length, _ = x.type.shape
    width = n.size(x.type.shape, 2, "the width of its inputs")
    if heads < 1 or width % heads:
        raise InvalidModelError(f"{n.op}: {width} elements in {heads} heads")
    return n.e.transpose(n.e.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def join_heads(n: Node, x: Value) -> Value:
    """[B, H, S, size] to [B, S, H * size]."""
    batch, heads, length, size = x.type.shape
    return n.e.reshape(n.e.transpose(x, (0, 2, 1, 3)), (batch, length, mul(heads, size)))


def default_scale(n: Node, head_size: Dim) -> float:
    """The attribute ``scale``; 1 / sqrt(head size) where it is left out or 0."""
    asked = n.number("scale", 0.0)
    if asked:
        return asked
    if not isinstance(head_size, int) or head_size < 1:
        raise Refused(f"the head size is {head_size}", "give that dimension a size")
    return float(np.float32(1 / np.sqrt(np.float32(head_size))))


def attend(n: Node, q: Value, k: Value, v: Value, scores: Scores) -> Value:
    """softmax(scores(q k')) v: [B, H, S, Dv], as one operator where that can express it."""
    if scores.softcap:
        weights = n.e.op("softmax", explicit_scores(n, q, k, scores), axis=3)
        return n.e.op("matmul", weights, shared_heads(n, v, q.type.shape[1]))
    masked = scores.mask is not None
    return n.e.op(
        "attention", q, k, v, *([scores.mask] if scores.mask is not None else []),
        scale=scores.scale, causal=scores.causal is not None, has_mask=masked,
        causal_offset=scores.causal or None,
        nan_rows=masked or scores.causal is None or None,
    )  # fmt: skip


def explicit_scores(n: Node, q: Value, k: Value, scores: Scores) -> Value:
    """[B, H, S, T], scaled, capped and masked: what softmax takes."""
    e = n.e
    out = e.op("matmul", q, shared_heads(n, k, q.type.shape[1]), trans_b=True)
    out = e.with_scalar("mul", out, scores.scale)
    if scores.softcap:
        capped = e.op("tanh", e.with_scalar("div", out, scores.softcap))
        out = e.with_scalar("mul", capped, scores.softcap)
    hidden = e.scalar(-np.inf, out.type.dtype)
    if scores.mask is not None and scores.mask.type.dtype == BOOL:
        out = e.map("select", scores.mask, out, hidden)
    elif scores.mask is not None:
        out = e.map("add", out, e.cast(scores.mask, out.type.dtype))
    if scores.causal is not None:
        out = e.map("select", visible(n, out.type.shape[2:], scores.causal), out, hidden)
    return out


def visible(n: Node, grid: tuple[Dim, ...], offset: Dim) -> Value:
    """bool [S, T]: key j is no later than query i + offset."""
    row, column = (n.e.op("iota", shape=grid, axis=i, dtype=I64) for i in range(2))
    return n.e.op("le", column, n.e.map("add", row, n.e.dims([offset], scalar=True)))


def shared_heads(n: Node, x: Value, heads: Dim) -> Value:
    """[B, Hk, T, D] to [B, H, T, D]: each head of keys serves H / Hk queries."""
    batch, shared, length, size = x.type.shape
    if shared == heads:
        return x
    if not isinstance(heads, int) or not isinstance(shared, int) or heads % shared:
        raise InvalidModelError(f"{n.op}: {heads} heads of q can't share {shared} of k")
    group = heads // shared
    wide = n.e.broadcast(n.e.unsqueeze(x, 2), (batch, shared, group, length, size))
    return n.e.reshape(wide, (batch, heads, length, size))


def appended(n: Node, past: Value | None, x: Value) -> Value:
    """Cached rows before new ones, along dim 2."""
    return x if past is None else n.e.op("concat", past, x, axis=2)


def padding_mask(n: Node, mask: Value, total: Dim, rows: Dim, fill: float) -> Value:
    """A padding mask as what is added to the scores: 0, or ``fill`` where a key is hidden.

    [B] and [2 * B] are ends (and starts) of the keys that count, [B, T] and [B, S, T] are 1 for
    those, [B, 1, M, M] is cut to the rows and keys at hand.
    """
    e, rank = n.e, mask.type.rank
    if rank == 1:
        keep = _between(n, mask, total)
    elif rank == 2:
        keep = e.unsqueeze(e.unsqueeze(e.with_scalar("gt", mask, 0), 1), 1)
    elif rank == 3:
        keep = e.unsqueeze(e.with_scalar("gt", mask, 0), 1)
    elif rank == 4:
        before = e.simplify(add(total, mul(rows, -1)))
        part = e.slice(e.slice(mask, 2, before, total), 3, 0, total)
        keep = e.with_scalar("gt", part, 0)
    else:
        raise InvalidModelError(f"{n.op}: a mask of shape {mask.type}")
    return e.map("select", keep, e.scalar(0.0, F32), e.scalar(fill, F32))


def _between(n: Node, ends: Value, total: Dim) -> Value:
    """bool [B, 1, 1, T] of key places below the ends, and from the starts on where given."""
    e, batch = n.e, n[0].type.shape[0]
    count = ends.type.shape[0]
    place = e.reshape(e.op("iota", shape=(total,), axis=0, dtype=I64), (1, 1, 1, total))
    wide = e.cast(ends, I64)
    if count != batch and count != mul(batch, 2):
        raise Refused(
            f"a mask of shape [{count}] for a batch of {batch}",
            "give the mask as [batch, keys], 1 for the keys that count",
        )
    high = e.reshape(e.slice(wide, 0, 0, batch), (batch, 1, 1, 1))
    keep = e.map("lt", place, high)
    if count == batch:
        return keep
    low = e.reshape(e.slice(wide, 0, batch, count), (batch, 1, 1, 1))
    return e.map("and", keep, e.map("ge", place, low))


def added(n: Node, first: Value | None, second: Value | None) -> Value | None:
    """The sum of two additive masks, either of which may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return n.e.map("add", first, n.e.cast(second, first.type.dtype))


def rotated(
    n: Node, x: Value, cos: Value, sin: Value, places: Value, interleaved: bool, width: int
) -> Value:
    """Rotary embedding of [B, H, S, D]; ``places`` [B or 1, S] are rows of the caches."""
    rows = [n.e.unsqueeze(n.e.op("gather", cache, places, axis=0), 1) for cache in (cos, sin)]
    return turned(n, x, rows[0], rows[1], interleaved, width)


def turned(n: Node, x: Value, cos: Value, sin: Value, interleaved: bool, width: int) -> Value:
    """The first ``width`` elements of each head [B, H, S, D] turned by angles whose cosines and
    sines are [B or 1, 1, S, width / 2] (Su et al. 2021)."""
    e = n.e
    half = width // 2
    batch, heads, length, size = x.type.shape
    turning, rest = e.slice(x, 3, 0, width), e.slice(x, 3, width, size)
    if interleaved:
        apart = e.reshape(turning, (batch, heads, length, half, 2))
        real, imag = (e.squeeze(e.slice(apart, 4, i, i + 1), [4]) for i in range(2))
    else:
        real, imag = e.slice(turning, 3, 0, half), e.slice(turning, 3, half, width)
    new_real = e.map("sub", e.map("mul", real, cos), e.map("mul", imag, sin))
    new_imag = e.map("add", e.map("mul", real, sin), e.map("mul", imag, cos))
    if interleaved:
        pair = e.op("concat", e.unsqueeze(new_real, 4), e.unsqueeze(new_imag, 4), axis=4)
        out = e.reshape(pair, turning.type.shape)
    else:
        out = e.op("concat", new_real, new_imag, axis=3)
    return out if rest.type.shape[3] == 0 else e.op("concat", out, rest, axis=3)
