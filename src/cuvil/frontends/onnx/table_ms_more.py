"""com.microsoft: inverses, crops, further rotations and convolutions with a state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.attention_parts import join_heads, split_heads, turned
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I64
from cuvil.sym.expr import Dim, add, mul, product


def _inverse(n: Node) -> Value:
    """Solves P L U X = I; a singular matrix gives what dividing by its zero pivot gives."""
    e, x = n.e, n[0]
    if x.type.rank < 2:
        raise InvalidModelError(f"Inverse needs matrices, got {x.type}")
    kind = x.type.dtype
    wide = x if kind.size >= 4 else e.cast(x, F32)
    size, shape = x.type.shape[-1], x.type.shape
    lu, pivots, _ = e.results("lu_factor", wide, pivot=True)
    order = e.op("exchanges_to_order", pivots, size=size)
    column = e.op("iota", shape=shape, axis=x.type.rank - 1, dtype=I64)
    rows = e.map("eq", column, e.unsqueeze(order, -1))
    unit = e.cast(rows, wide.type.dtype)
    half = e.op("triangular_solve", lu, unit, upper=False, unit=True)
    return e.cast(e.op("triangular_solve", lu, half, upper=True, unit=False), kind)


class _Axis:
    """Where the samples of each crop lie along one axis of the image: [R, count], in elements."""

    def __init__(self, n: Node, boxes: Value, first: int, size: Dim, count: int) -> None:
        e = n.e
        self.n, self.size = n, size
        low, high = (e.slice(boxes, 1, i, i + 1) for i in (first, first + 2))
        last = e.cast(e.dims([e.simplify(add(size, -1))], scalar=True), F32)
        if count > 1:
            step = e.with_scalar("div", e.map("mul", e.map("sub", high, low), last), count - 1)
            steps = e.op("iota", shape=(1, count), axis=1, dtype=F32)
            self.at = e.map("add", e.map("mul", low, last), e.map("mul", steps, step))
        else:
            self.at = e.map("mul", e.with_scalar("mul", e.map("add", low, high), 0.5), last)
        inside = e.map("le", self.at, last)
        self.inside = e.map("and", inside, e.with_scalar("ge", self.at, 0))

    def place(self, rounding: str) -> Value:
        """Whole places within the axis, i64."""
        e = self.n.e
        top = e.dims([e.simplify(add(self.size, -1))], scalar=True)
        whole = e.cast(e.op(rounding, self.at), I64)
        return e.with_scalar("max", e.map("min", whole, top), 0)

    def weight(self) -> Value:
        """How far behind the floor a sample is."""
        return self.n.e.op("sub", self.at, self.n.e.op("floor", self.at))


def _crop_and_resize(n: Node) -> Value:
    """Boxes [y1, x1, y2, x2] of images [N, C, H, W], corners aligned (TensorFlow's operator)."""
    e, x, boxes = n.e, n[0], n[1]
    rows, columns = n.static(3, "the size of the crops")
    mode = n.text("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        raise Refused(f"mode {mode!r}", "use bilinear or nearest")
    batch, channels, height, width = x.type.shape
    ys, xs = _Axis(n, boxes, 0, height, rows), _Axis(n, boxes, 1, width, columns)
    flat = e.reshape(e.transpose(x, (0, 2, 3, 1)), (product((batch, height, width)), channels))
    image = e.reshape(e.cast(n[2], I64), (boxes.type.shape[0], 1, 1))

    def read(y: str, x: str) -> Value:
        high, wide = e.dims([height], scalar=True), e.dims([width], scalar=True)
        row = e.map("add", e.map("mul", image, high), e.unsqueeze(ys.place(y), 2))
        at = e.map("add", e.map("mul", row, wide), e.unsqueeze(xs.place(x), 1))
        return e.op("gather", flat, at, axis=0)

    def mixed(a: Value, b: Value, weight: Value) -> Value:
        return e.map("add", a, e.map("mul", e.map("sub", b, a), weight))

    if mode == "nearest":
        out = read("round", "round")
    else:
        across, down = e.unsqueeze(xs.weight(), 1), e.unsqueeze(ys.weight(), 2)
        across, down = e.unsqueeze(across, 3), e.unsqueeze(down, 3)
        top = mixed(read("floor", "floor"), read("floor", "ceil"), across)
        out = mixed(top, mixed(read("ceil", "floor"), read("ceil", "ceil"), across), down)
    inside = e.map("and", e.unsqueeze(ys.inside, 2), e.unsqueeze(xs.inside, 1))
    outside = e.scalar(n.number("extrapolation_value", 0.0), x.type.dtype)
    return e.transpose(e.map("select", e.unsqueeze(inside, 3), out, outside), (0, 3, 1, 2))


def _causal_conv(n: Node) -> list[Value]:
    """A depthwise convolution over the past state and the input; the last places are the next
    state."""
    e, x, w = n.e, n[0], n[1]
    if n.integer("ndim", 1) != 1 or n.integer("state_window", 0):
        raise Refused("more than one dimension, or a window of states", "use ndim 1, one state")
    last = bool(n.integer("channels_last", 0))
    if x.type.rank != 3:
        raise Refused(f"an input of rank {x.type.rank}", "join its channels to one dimension")
    taps, spread = n.size(w.type.shape, 2, "the kernel"), n.integer("dilation", 1)
    held = (taps - 1) * spread
    turn = (0, 2, 1)
    image = e.transpose(x, turn) if last else x
    batch, channels, length = image.type.shape
    if n.has(3):
        past = e.transpose(n[3], turn) if last else n[3]
    else:
        past = e.broadcast(e.scalar(0, x.type.dtype), (batch, channels, held))
    whole = e.op("concat", past, image, axis=2)
    out = e.op(
        "conv", whole, w, *([n[2]] if n.has(2) else []), strides=(1,), dilations=(spread,),
        pads_lo=(0,), pads_hi=(0,), groups=n.size(w.type.shape, 0, "channels"),
        has_bias=n.has(2),
    )  # fmt: skip
    activation = n.text("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise InvalidModelError(f"{n.op}: activation {activation!r} is unknown")
    out = out if activation == "none" else e.op("silu", out)
    state = e.slice(whole, 2, length, add(length, held))
    return [e.transpose(v, turn) if last else v for v in (out, state)]


def _sectioned(n: Node, cache: Value, places: Sequence[Value], half: int) -> Value:
    """Rows [B, S, half] of a cache, each column from the position stream it belongs to."""
    sections = n.integers("mrope_section")
    if len(sections) != 3 or sum(sections) != half:
        raise InvalidModelError(f"{n.op}: sections {sections} of {half} columns")
    stream = np.repeat(np.arange(3), sections)
    if n.integer("mrope_layout", 0):
        stream = np.zeros(half, np.int64)
        for i in (1, 2):
            stream[i : 3 * sections[i] : 3] = i
    rows = [n.e.op("gather", cache, at, axis=0) for at in places]
    out = rows[0]
    for i in (1, 2):
        out = n.e.map("select", n.e.weight(stream == i), rows[i], out)
    return out


def _multimodal_rotary(n: Node) -> Value:
    """Rotary embedding by the places in time, height and width."""
    e, x = n.e, n[0]
    if n.integer("is_packed_batching", 0):
        raise Refused("packed batches", "give each sequence a row of its own")
    half = n.size(n[2].type.shape, 1, "the width of its caches")
    width = n.integer("rotary_embedding_dim", 0) or 2 * half
    flat = x.type.rank == 3
    if flat:
        hidden = n.size(x.type.shape, 2, "the width of its input")
        x = split_heads(n, x, n.integer("num_heads", 0) or hidden // (2 * half))
    streams = [e.cast(e.squeeze(e.slice(n[1], 0, i, i + 1), [0]), I64) for i in range(3)]
    cos, sin = (e.unsqueeze(_sectioned(n, n[i], streams, half), 1) for i in (2, 3))
    out = turned(n, x, cos, sin, bool(n.integer("interleaved", 0)), width)
    return join_heads(n, out) if flat else out


def _gemma_rotary(n: Node) -> list[Value]:
    """q cos(emb) + q_rot sin(emb), and the same for k; sine and cosine in f32."""
    e = n.e
    cos, sin = (e.unsqueeze(e.cast(e.op(f, n[0]), n[1].type.dtype), 1) for f in ("cos", "sin"))
    return [
        e.map("add", e.map("mul", n[i], cos), e.map("mul", n[i + 1], sin)) for i in (1, 3)
    ]


def _gated_position_bias(n: Node) -> Value:
    """rel_pos times a gate that each query opens for itself (WavLM, Chen et al. 2022)."""
    e, heads = n.e, n.integer("num_heads")
    if n.has(6):
        raise Refused("packed batches (token_offset)", "give each sequence a row of its own")
    q = split_heads(n, e.map("add", n[0], n[1]), heads)
    gates = e.map("add", e.op("matmul", q, n[3]), n[4])
    batch, _, length, width = gates.type.shape
    half = n.size(gates.type.shape, 3, "the gate's width") // 2
    e.context.require(mul(half, 2), "==", width, f"{n.op}: the gate's width is even")
    pairs = e.reshape(gates, (batch, heads, length, 2, half))
    opened = e.op("sigmoid", e.op("reduce_sum", pairs, axes=(4,), keepdims=False))
    update, reset = (e.slice(opened, 3, i, i + 1) for i in range(2))
    inner = e.with_scalar("sub", e.map("mul", reset, n[5]), 1.0)
    gate = e.with_scalar("add", e.map("mul", update, inner), 2.0)
    return e.map("mul", gate, n[2])


TABLE: dict[str, Handler] = {
    "Inverse": _inverse,
    "CropAndResize": _crop_and_resize,
    "CausalConvWithState": _causal_conv,
    "MRotaryEmbedding": _multimodal_rotary,
    "GemmaRotaryEmbedding": _gemma_rotary,
    "GatedRelativePositionBias": _gated_position_bias,
}
