"""Activations, written out in elementwise operators. Formulas are those of the ONNX operators."""

from __future__ import annotations

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.ir.core import Value
from cuvil.ir.types import F64, I64
from cuvil.sym.expr import product


def _relu(n: Node) -> Value:
    return n.e.with_scalar("max", n[0], 0)


def _leaky(n: Node) -> Value:
    x, e = n[0], n.e
    scaled = e.with_scalar("mul", x, n.number("alpha", 0.01))
    return e.op("select", e.with_scalar("lt", x, 0), scaled, x)


def _prelu(n: Node) -> Value:
    """The slope broadcasts to x; before opset 7 a vector runs along axis 1."""
    x, slope, e = n[0], n[1], n.e
    if n.version < 7 and slope.type.rank == 1 and x.type.rank > 1 and slope.type.shape != (1,):
        slope = e.reshape(slope, (*slope.type.shape, *[1] * (x.type.rank - 2)))
    scaled = e.map("mul", x, slope)
    return e.map("select", e.with_scalar("lt", x, 0), scaled, x)


def _elu(n: Node) -> Value:
    x, e = n[0], n.e
    low = e.with_scalar("mul", e.op("expm1", x), n.number("alpha", 1.0))
    return e.op("select", e.with_scalar("lt", x, 0), low, x)


def _selu(n: Node) -> Value:
    x, e = n[0], n.e
    old = n.version < 6
    alpha = n.number("alpha", 1.6732 if old else 1.67326319217681884765625)
    gamma = n.number("gamma", 1.0507 if old else 1.05070102214813232421875)
    low = e.with_scalar("mul", e.op("expm1", x), alpha)
    out = e.op("select", e.with_scalar("le", x, 0), low, x)
    return e.with_scalar("mul", out, gamma)


def _celu(n: Node) -> Value:
    x, e = n[0], n.e
    alpha = n.number("alpha", 1.0)
    low = e.with_scalar("mul", e.op("expm1", e.with_scalar("div", x, alpha)), alpha)
    return e.op("select", e.with_scalar("lt", x, 0), low, x)


def _hard(n: Node, alpha: float, beta: float) -> Value:
    e = n.e
    line = e.with_scalar("add", e.with_scalar("mul", n[0], alpha), beta)
    return e.with_scalar("min", e.with_scalar("max", line, 0), 1)


def _hard_sigmoid(n: Node) -> Value:
    return _hard(n, n.number("alpha", 0.2), n.number("beta", 0.5))


def _hard_swish(n: Node) -> Value:
    """x * HardSigmoid(x), whose slope is a sixth in f32 (HardSwish-14's function)."""
    return n.e.op("mul", n[0], _hard(n, float(np.float32(1 / 6)), 0.5))


def _thresholded(n: Node) -> Value:
    x, e = n[0], n.e
    above = e.with_scalar("gt", x, n.number("alpha", 1.0))
    return e.map("select", above, x, e.scalar(0, x.type.dtype))


def _softsign(n: Node) -> Value:
    return n.e.op("div", n[0], n.e.with_scalar("add", n.e.op("abs", n[0]), 1))


def _mish(n: Node) -> Value:
    return n.e.op("mul", n[0], n.e.op("tanh", n.e.op("softplus", n[0])))


def _gelu(n: Node) -> Value:
    kind = n.text("approximate", "none")
    if kind not in ("none", "tanh"):
        raise InvalidModelError(f"Gelu: approximate {kind!r} is not 'none' or 'tanh'")
    return n.e.op("gelu" if kind == "none" else "gelu_tanh", n[0])


def _swish(n: Node) -> Value:
    alpha = n.number("alpha", 1.0)
    if alpha == 1.0:
        return n.e.op("silu", n[0])
    return n.e.op("mul", n[0], n.e.op("sigmoid", n.e.with_scalar("mul", n[0], alpha)))


def _shrink(n: Node) -> Value:
    """x - bias above lambd, x + bias below -lambd, else 0; integers by way of f64, truncated,
    where the bias is no integer (Shrink-9)."""
    x, e = n[0], n.e
    bias, edge = n.number("bias", 0.0), n.number("lambd", 0.5)
    through = x.type.dtype if x.type.dtype.is_float or bias.is_integer() else F64
    wide, zero = e.cast(x, through), e.scalar(0, x.type.dtype)
    lower, higher = (
        e.cast(e.with_scalar(name, wide, bias), x.type.dtype) for name in ("sub", "add")
    )
    above = e.map("select", _beyond(n, "gt", edge), lower, zero)
    return e.map("select", _beyond(n, "lt", -edge), higher, above)


def _beyond(n: Node, relation: str, edge: float) -> Value:
    """x relation edge, compared as floats where x is an integer and the edge is none."""
    x = n[0] if n[0].type.dtype.is_float else n.e.cast(n[0], F64)
    return n.e.with_scalar(relation, x, edge)


def flattened(n: Node, axis: int, x: Value) -> tuple[Value, int]:
    """x as [prod(shape[:axis]), prod(shape[axis:])] and axis 1, where it isn't that already."""
    if axis == x.type.rank - 1:
        return x, axis
    shape = x.type.shape
    return n.e.reshape(x, (product(shape[:axis]), product(shape[axis:]))), 1


def _softmax(name: str) -> Handler:
    """Before opset 13 all dims from the axis on are one (Softmax-11)."""

    def handle(n: Node) -> Value:
        x = n[0]
        if x.type.rank == 0:
            x = n.e.reshape(x, (1,))
            return n.e.reshape(n.e.op(name, x, axis=0), ())
        if n.version >= 13:
            return n.e.op(name, x, axis=n.axis("axis", -1, x.type.rank))
        flat, axis = flattened(n, n.axis("axis", 1, x.type.rank), x)
        return n.e.reshape(n.e.op(name, flat, axis=axis), x.type.shape)

    return handle


def _hardmax(n: Node) -> Value:
    """1 at the first maximum, 0 elsewhere."""
    x, e = n[0], n.e
    axis = n.axis("axis", -1 if n.version >= 13 else 1, x.type.rank)
    if n.version < 13:
        x, axis = flattened(n, axis, x)
    best = e.op("argmax", x, axis=axis, keepdims=True)
    index = e.op("iota", shape=x.type.shape, axis=axis, dtype=I64)
    return e.reshape(e.cast(e.map("eq", index, best), x.type.dtype), n[0].type.shape)


def _affine(n: Node) -> Value:
    scaled = n.e.with_scalar("mul", n[0], n.number("alpha", 1.0))
    return n.e.with_scalar("add", scaled, n.number("beta", 0.0))


def _scaled_tanh(n: Node) -> Value:
    inner = n.e.op("tanh", n.e.with_scalar("mul", n[0], n.number("beta", 1.0)))
    return n.e.with_scalar("mul", inner, n.number("alpha", 1.0))


TABLE: dict[str, Handler] = {
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
    "Elu": _elu,
    "Selu": _selu,
    "Celu": _celu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "ThresholdedRelu": _thresholded,
    "Softsign": _softsign,
    "Mish": _mish,
    "Gelu": _gelu,
    "Swish": _swish,
    "Shrink": _shrink,
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "Hardmax": _hardmax,
    "Affine": _affine,
    "ScaledTanh": _scaled_tanh,
}
