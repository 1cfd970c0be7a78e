"""Optimizers of ai.onnx.preview.training, version 1: one step on any number of tensors.

The rate and the coefficients that depend on the step count alone are computed in f64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.ir.core import Value
from cuvil.ir.types import F64, I64

DOMAIN = "ai.onnx.preview.training"


def _tensors(n: Node, kinds: int) -> Iterator[Sequence[Value]]:
    """For each optimized tensor: it, its gradient, and the optimizer's states of it."""
    count, rest = divmod(len(n.inputs) - 2, kinds)
    if rest or count < 1:
        raise InvalidModelError(f"{n.op}: {len(n.inputs)} inputs are not 2 and {kinds} a tensor")
    for i in range(count):
        yield [n[2 + kind * count + i] for kind in range(kinds)]


def _grouped(rows: Sequence[Sequence[Value]]) -> list[Value]:
    """Results of each tensor in the order of outputs: all tensors, then all of each state."""
    return [value for column in zip(*rows, strict=True) for value in column]


def _regularized(n: Node, x: Value, gradient: Value) -> Value:
    decay = n.number("norm_coefficient", 0.0)
    return n.e.op("add", n.e.with_scalar("mul", x, decay), gradient)


def _scalars(n: Node) -> tuple[Value, Value, Value]:
    """The rate and the step count in f64, and whether this is a later step than the first."""
    rate, step = (n.e.reshape(n[i], ()) for i in (0, 1))
    later = n.e.with_scalar("gt", n.e.cast(step, I64), 0)
    return n.e.cast(rate, F64), n.e.cast(step, F64), later


def _times(n: Node, x: Value, scalar: Value) -> Value:
    return n.e.map("mul", x, n.e.cast(scalar, x.type.dtype))


def _adagrad(n: Node) -> list[Value]:
    e = n.e
    rate, step, _ = _scalars(n)
    decayed = e.with_scalar("add", e.with_scalar("mul", step, n.number("decay_factor", 0.0)), 1)
    rate = e.op("div", rate, decayed)
    rows = []
    for x, gradient, squares in _tensors(n, 3):
        g = _regularized(n, x, gradient)
        squares = e.op("add", squares, e.op("mul", g, g))
        root = e.with_scalar("add", e.op("sqrt", squares), n.number("epsilon", 1e-6))
        rows.append([e.op("sub", x, e.op("div", _times(n, g, rate), root)), squares])
    return _grouped(rows)


def _adam(n: Node) -> list[Value]:
    e = n.e
    rate, step, later = _scalars(n)
    alpha, beta = n.number("alpha", 0.9), n.number("beta", 0.999)

    def rest(base: float) -> Value:
        """1 - base ** step"""
        power = e.op("pow", e.scalar(base, F64), step)
        return e.op("sub", e.scalar(1, F64), power)

    corrected = e.op("div", e.op("mul", rate, e.op("sqrt", rest(beta))), rest(alpha))
    rate = e.op("select", later, corrected, rate)
    rows = []
    for x, gradient, first, second in _tensors(n, 4):
        g = _regularized(n, x, gradient)
        first = _blend(n, first, g, alpha)
        second = _blend(n, second, e.op("mul", g, g), beta)
        root = e.with_scalar("add", e.op("sqrt", second), n.number("epsilon", 1e-6))
        x = e.op("sub", x, _times(n, e.op("div", first, root), rate))
        x = e.with_scalar("mul", x, 1 - n.number("norm_coefficient_post", 0.0))
        rows.append([x, first, second])
    return _grouped(rows)


def _blend(n: Node, old: Value, new: Value, share: float) -> Value:
    kept = n.e.with_scalar("mul", old, share)
    return n.e.op("add", kept, n.e.with_scalar("mul", new, 1 - share))


def _momentum(n: Node) -> list[Value]:
    e = n.e
    rate, _, later = _scalars(n)
    mode = n.text("mode")
    if mode not in ("standard", "nesterov"):
        raise InvalidModelError(f"Momentum: mode {mode!r} is not 'standard' or 'nesterov'")
    alpha = n.number("alpha")
    beta = e.op("select", later, e.scalar(n.number("beta"), F64), e.scalar(1, F64))
    rows = []
    for x, gradient, velocity in _tensors(n, 3):
        g = _regularized(n, x, gradient)
        velocity = e.op("add", e.with_scalar("mul", velocity, alpha), _times(n, g, beta))
        way = velocity
        if mode == "nesterov":
            way = e.op("add", g, e.with_scalar("mul", velocity, alpha))
        rows.append([e.op("sub", x, _times(n, way, rate)), velocity])
    return _grouped(rows)


TABLE: dict[str, Handler] = {"Adagrad": _adagrad, "Adam": _adam, "Momentum": _momentum}
