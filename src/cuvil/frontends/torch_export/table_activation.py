"""Activation functions, by the formulas in torch.nn's documentation."""

from __future__ import annotations

from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import choose, composed
from cuvil.ir.core import Value


def _relu(c: Call) -> Value:
    return c.e.with_scalar("max", c.first, 0)


def between(c: Call, x: Value, low: float, high: float) -> Value:
    """x clamped to [low, high]; NaN stays."""
    return c.e.with_scalar("min", c.e.with_scalar("max", x, low), high)


def _hardtanh(c: Call) -> Value:
    return between(c, c.first, c.get("min_val", -1.0), c.get("max_val", 1.0))


def _gelu(c: Call) -> Value:
    return c.e.op("gelu_tanh" if c.get("approximate") == "tanh" else "gelu", c.first)


def _hardsigmoid(c: Call, x: Value) -> Value:
    return c.e.with_scalar("div", between(c, c.e.with_scalar("add", x, 3), 0, 6), 6)


def _hardswish(c: Call, x: Value) -> Value:
    """x * relu6(x + 3) / 6"""
    gate = between(c, c.e.with_scalar("add", x, 3), 0, 6)
    return c.e.with_scalar("div", c.e.op("mul", x, gate), 6)


def _leaky_relu(c: Call) -> Value:
    x = c.first
    slope = c.get("negative_slope", 0.01)
    return choose(c, c.e.with_scalar("gt", x, 0), x, c.e.with_scalar("mul", x, slope))


def _elu(c: Call) -> Value:
    """scale * x for x > 0, else scale * alpha * (exp(input_scale * x) - 1)"""
    x, alpha, scale = c.first, c.get("alpha", 1.0), c.get("scale", 1.0)
    return _elu_of(c, x, alpha, scale, c.get("input_scale", 1.0))


def _elu_of(c: Call, x: Value, alpha: float, scale: float, inner: float) -> Value:
    e = c.e
    scaled = x if inner == 1 else e.with_scalar("mul", x, inner)
    low = e.with_scalar("mul", e.op("expm1", scaled), alpha * scale)
    high = x if scale == 1 else e.with_scalar("mul", x, scale)
    return choose(c, e.with_scalar("gt", x, 0), high, low)


def _selu(c: Call) -> Value:
    return _elu_of(c, c.first, 1.6732632423543772, 1.0507009873554805, 1.0)


def _celu(c: Call) -> Value:
    alpha = c.get("alpha", 1.0)
    return _elu_of(c, c.first, alpha, 1.0, 1.0 / alpha)


def _prelu(c: Call) -> Value:
    x, weight = c.first, c.tensor("weight")
    if weight.type.rank == 1 and x.type.rank >= 2:
        ones = (1,) * (x.type.rank - 2)
        weight = c.e.reshape(weight, (weight.type.shape[0], *ones))
    elif weight.type.rank == 1 and x.type.rank == 0:
        weight = c.e.reshape(weight, ())
    return choose(c, c.e.with_scalar("gt", x, 0), x, c.e.map("mul", x, weight))


def _softplus(c: Call) -> Value:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""
    x, beta, threshold = c.first, c.get("beta", 1), c.get("threshold", 20)
    scaled = x if beta == 1 else c.e.with_scalar("mul", x, beta)
    soft = c.e.op("softplus", scaled)
    soft = soft if beta == 1 else c.e.with_scalar("div", soft, beta)
    return choose(c, c.e.with_scalar("gt", scaled, threshold), x, soft)


def _log_sigmoid(c: Call, x: Value) -> Value:
    """-softplus(-x), which neither overflows nor cancels"""
    return c.e.op("neg", c.e.op("softplus", c.e.op("neg", x)))


def _log_sigmoid_forward(c: Call) -> list[Value | None]:
    return [_log_sigmoid(c, c.first), None]


def _mish(c: Call, x: Value) -> Value:
    return c.e.op("mul", x, c.e.op("tanh", c.e.op("softplus", x)))


def _softsign(c: Call, x: Value) -> Value:
    return c.e.op("div", x, c.e.with_scalar("add", c.e.op("abs", x), 1))


def _tanhshrink(c: Call, x: Value) -> Value:
    return c.e.op("sub", x, c.e.op("tanh", x))


def _softshrink(c: Call) -> Value:
    """x - lambda above lambda, x + lambda below -lambda, else 0 (NaN stays)"""
    x, lambd, e = c.first, c.get("lambd", 0.5), c.e
    above = choose(c, e.with_scalar("gt", x, lambd), e.with_scalar("sub", x, lambd),
                   e.with_scalar("mul", x, 0))  # fmt: skip
    return choose(c, e.with_scalar("lt", x, -lambd), e.with_scalar("add", x, lambd), above)


def _hardshrink(c: Call) -> Value:
    x, lambd, e = c.first, c.get("lambd", 0.5), c.e
    inside = e.op("and", e.with_scalar("ge", x, -lambd), e.with_scalar("le", x, lambd))
    return choose(c, inside, e.scalar(0, x.type.dtype), x)


def _threshold(c: Call) -> Value:
    """value where x <= threshold, else x"""
    x = c.first
    low = c.as_value(c["value"], x.type.dtype)
    return choose(c, c.e.with_scalar("le", x, c["threshold"]), low, x)


def _glu(c: Call) -> Value:
    """a * sigmoid(b) of the two halves"""
    x = c.first
    axis = c.axis("dim")
    half = c.shape[axis]
    a = c.e.slice(x, axis, 0, half)
    b = c.e.slice(x, axis, half, x.type.shape[axis])
    return c.e.op("mul", a, c.e.op("sigmoid", b))


def _rrelu(c: Call) -> Value:
    """In evaluation a leaky relu with the mean slope."""
    if c.get("training", False):
        raise Refused("rrelu in training draws random slopes")
    slope = (c.get("lower", 0.125) + c.get("upper", 1 / 3)) / 2
    x = c.first
    return choose(c, c.e.with_scalar("gt", x, 0), x, c.e.with_scalar("mul", x, slope))


RULES: dict[str, Rule] = {
    "relu": _relu,
    "relu6": composed(lambda c, x: between(c, x, 0, 6)),
    "hardtanh": _hardtanh,
    "gelu": _gelu,
    "silu": composed(lambda c, x: c.e.op("silu", x)),
    "hardsigmoid": composed(_hardsigmoid),
    "hardswish": composed(_hardswish),
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "selu": _selu,
    "celu": _celu,
    "prelu": _prelu, "_prelu_kernel": _prelu,
    "softplus": _softplus,
    "log_sigmoid": composed(_log_sigmoid),
    "log_sigmoid_forward": _log_sigmoid_forward,
    "mish": composed(_mish),
    "softsign": composed(_softsign),
    "tanhshrink": composed(_tanhshrink),
    "softshrink": _softshrink,
    "hardshrink": _hardshrink,
    "threshold": _threshold,
    "glu": _glu,
    "rrelu": _rrelu,
}  # fmt: skip
