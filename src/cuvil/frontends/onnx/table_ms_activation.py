"""com.microsoft: activations, alone or fused with a bias, a residual or a gate.

Definitions: onnxruntime's ContribOperators.
"""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.frontends.onnx.table_activation import flattened
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F32
from cuvil.sym.expr import floordiv, mul


def biased(n: Node, index: int) -> Value:
    """The first input plus the input at ``index``, where that is given."""
    return n.e.map("add", n[0], n[index]) if n.has(index) else n[0]


def quick_gelu(n: Node, x: Value, alpha: float) -> Value:
    """x * sigmoid(alpha * x)."""
    return n.e.op("mul", x, n.e.op("sigmoid", n.e.with_scalar("mul", x, alpha)))


def _gelu(n: Node) -> Value:
    return n.e.op("gelu", biased(n, 1))


def _fast_gelu(n: Node) -> Value:
    return n.e.op("gelu_tanh", biased(n, 1))


def _quick_gelu(n: Node) -> Value:
    return quick_gelu(n, n[0], n.number("alpha", 1.702))


def _halves(n: Node, x: Value) -> tuple[Value, Value]:
    width = x.type.shape[-1]
    half = n.e.simplify(floordiv(width, 2))
    n.e.context.require(mul(half, 2), "==", width, f"{n.op}: the last dimension has two halves")
    return n.e.slice(x, -1, 0, half), n.e.slice(x, -1, half, width)


def _bias_split_gelu(n: Node) -> Value:
    """The left half times the gelu of the right one."""
    left, right = _halves(n, biased(n, 1))
    return n.e.op("mul", left, n.e.op("gelu", right))


def _bias_add(n: Node) -> Value:
    return n.e.map("add", biased(n, 1), n[2])


def _bias_dropout(n: Node) -> list[Value]:
    """Inference: data + bias + residual, and a mask of ones."""
    if n.has(4) and bool(n.constant(4, "training_mode").any()):
        raise Refused("training mode draws random numbers", "export the model for inference")
    out = biased(n, 1)
    out = n.e.map("add", out, n[2]) if n.has(2) else out
    return [out, n.e.broadcast(n.e.scalar(True, BOOL), n[0].type.shape)]


def _bias_softmax(n: Node) -> Value:
    """softmax over the dims from ``axis`` on; the bias has the trailing dims of the data
    (is_inner_broadcast 0), or its leading ones before a run of 1."""
    e, x, bias = n.e, n[0], n[1]
    rank = x.type.rank
    if bias.type.rank != rank:
        if n.integer("is_inner_broadcast"):
            raise Refused("an inner broadcast of a bias of another rank", "give the bias all dims")
        if bias.type.rank > rank:
            raise InvalidModelError(f"{n.op}: the bias {bias.type} has more dims than {x.type}")
    axis = n.axis("axis", 1, rank)
    total = e.map("add", x, bias)
    flat, axis = flattened(n, axis, total)
    return e.reshape(e.op("softmax", flat, axis=axis), total.type.shape)


def _scaled_silu(n: Node) -> Value:
    """Z = scale * X and Z * sigmoid(Z), each rounded to X's type."""
    e, x = n.e, n[0]
    wide = e.cast(x, F32)
    if n.has(1):
        z = e.map("mul", wide, e.cast(e.reshape(n[1], ()), F32))
    else:
        z = e.with_scalar("mul", wide, n.number("alpha", 1.0))
    z = e.cast(z, x.type.dtype)
    return e.op("mul", z, e.cast(e.op("sigmoid", e.cast(z, F32)), x.type.dtype))


def _swiglu(n: Node) -> Value:
    """G * sigmoid(alpha * G) * (L + beta), both clamped by a positive limit; rounded once."""
    e = n.e
    gate, up = (n[0], n[1]) if n.has(1) else _halves(n, n[0])
    kind = gate.type.dtype
    gate, up = e.cast(gate, F32), e.cast(up, F32)
    limit = n.number("limit", 0.0)
    if limit > 0:
        gate = e.with_scalar("min", gate, limit)
        up = e.with_scalar("max", e.with_scalar("min", up, limit), -limit)
    active = quick_gelu(n, gate, n.number("activation_alpha", 1.0))
    if n.integer("round_activation", 0):
        active = e.cast(e.cast(active, kind), F32)
    beta = n.number("activation_beta", 0.0)
    up = e.with_scalar("add", up, beta) if beta else up
    return e.cast(e.op("mul", active, up), kind)


TABLE: dict[str, Handler] = {
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "BiasSplitGelu": _bias_split_gelu,
    "BiasAdd": _bias_add,
    "BiasDropout": _bias_dropout,
    "BiasSoftmax": _bias_softmax,
    "ScaledSiLU": _scaled_silu,
    "SwiGLU": _swiglu,
}
