"""com.microsoft: elementwise operators, pooling and the like over quantized tensors.

Each is quantize(f(dequantize(x))) with the arithmetic in f32 (onnxruntime's ContribOperators).
onnxruntime folds scales into its multipliers, so its results may differ by one step at a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import table_quant
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.table_activation import flattened
from cuvil.frontends.onnx.table_ms_dense import channels_first, channels_last
from cuvil.frontends.onnx.table_pool import average, max_pool
from cuvil.frontends.onnx.table_quant import dequantized, quantized
from cuvil.frontends.onnx.table_quant_product import qlinear_conv
from cuvil.frontends.onnx.windows import windows
from cuvil.ir.core import Value
from cuvil.ir.types import I32, DType


def scalar(n: Node, index: int) -> Value | None:
    """A scale or zero point of one element, as a rank-0 value."""
    return n.e.reshape(n[index], ()) if n.has(index) else None


def real(n: Node, index: int) -> Value:
    """The tensor at ``index`` with its scale and zero point behind it, as f32."""
    return dequantized(n, n[index], n.e.reshape(n[index + 1], ()), scalar(n, index + 2))


def _out(n: Node, x: Value, index: int, kind: DType | None = None) -> Value:
    """x quantized with the scale at ``index`` and the zero point behind it."""
    scale = n.e.reshape(n[index], ())
    return quantized(n, x, scale, scalar(n, index + 1), kind or n.dtype())


def _binary(name: str) -> Handler:
    return lambda n: _out(n, n.e.map(name, real(n, 0), real(n, 3)), 6)


def _unary(rule: Callable[[Node, Value], Value]) -> Handler:
    return lambda n: _out(n, rule(n, real(n, 0)), 3)


def _leaky(n: Node, x: Value) -> Value:
    low = n.e.with_scalar("mul", x, n.number("alpha", 0.01))
    return n.e.op("select", n.e.with_scalar("lt", x, 0), low, x)


def _softmax(n: Node, x: Value) -> Value:
    """Before opset 13 all dims from the axis on are one."""
    axis = n.axis("axis", -1, x.type.rank)
    if n.integer("opset") >= 13:
        return n.e.op("softmax", x, axis=axis)
    flat, axis = flattened(n, axis, x)
    return n.e.reshape(n.e.op("softmax", flat, axis=axis), x.type.shape)


def _concat(n: Node) -> Value:
    """Inputs come as (tensor, scale, zero point) behind the result's scale and zero point."""
    parts = [real(n, i) for i in range(2, len(n.inputs), 3)]
    axis = n.axis("axis", None, parts[0].type.rank)
    whole = n.e.op("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    return _out(n, whole, 0, n[1].type.dtype)


def _where(n: Node) -> Value:
    chosen = n.e.map("select", n[0], real(n, 1), real(n, 4))
    return _out(n, chosen, 7, n[1].type.dtype)


def _turned(n: Node, x: Value, rule: Callable[[Value], Value]) -> Value:
    """``rule`` over channels first, whatever layout the node has."""
    if not n.integer("channels_last", 0):
        return rule(x)
    return channels_last(n, rule(channels_first(n, x)))


def _average_pool(n: Node, x: Value) -> Value:
    def pool(y: Value) -> Value:
        window = windows(n.with_inputs([y]), n.integers("kernel_shape"))
        ceil = bool(n.integer("ceil_mode", 0)) or None
        return average(n, y, window, bool(n.integer("count_include_pad", 0)), ceil)

    return _turned(n, x, pool)


def _global_average_pool(n: Node, x: Value) -> Value:
    if x.type.rank < 3:
        raise InvalidModelError(f"{n.op} needs [N, C, *spatial], got {x.type}")
    first = 1 if n.integer("channels_last", 0) else 2
    axes = tuple(range(first, first + x.type.rank - 2))
    return n.e.op("reduce_mean", x, axes=axes, keepdims=True)


def _reduce_mean(n: Node, x: Value) -> Value:
    axes = n.integers("axes", []) or list(range(x.type.rank))
    counted = tuple(sorted(n.count(a, x.type.rank) for a in axes))
    return n.e.op("reduce_mean", x, axes=counted, keepdims=bool(n.integer("keepdims", 1)))


def _conv(n: Node) -> Value:
    if not n.integer("channels_last", 0):
        return qlinear_conv(n)
    turned = n.with_inputs([channels_first(n, n[0]), *n.inputs[1:]])
    return channels_last(n, qlinear_conv(turned))


def _max_pool(n: Node) -> Value:
    turned = n.with_inputs([channels_first(n, n[0])])
    return channels_last(n, max_pool(turned)[0])


def _mul_integer(n: Node) -> Value:
    """(A - a_zero) * (B - b_zero) in i32."""
    return n.e.map("mul", *(_away(n, i) for i in (0, 2)))


def _away(n: Node, index: int) -> Value:
    x = n.e.cast(n[index], I32)
    zero = scalar(n, index + 1)
    return x if zero is None else n.e.map("sub", x, n.e.cast(zero, I32))


def _reduce_sum_integer(n: Node) -> Value:
    x = n.e.cast(n[0], I32)
    axes: Sequence[int] = n.integers("axes", []) or list(range(x.type.rank))
    counted = tuple(sorted(n.count(a, x.type.rank) for a in axes))
    return n.e.op("reduce_sum", x, axes=counted, keepdims=bool(n.integer("keepdims", 1)))


TABLE: dict[str, Handler] = {
    "QuantizeLinear": table_quant.quantize,
    "DequantizeLinear": table_quant.dequantize,
    "QLinearAdd": _binary("add"),
    "QLinearMul": _binary("mul"),
    "QLinearSigmoid": _unary(lambda n, x: n.e.op("sigmoid", x)),
    "QLinearLeakyRelu": _unary(_leaky),
    "QLinearSoftmax": _unary(_softmax),
    "QLinearAveragePool": _unary(_average_pool),
    "QLinearGlobalAveragePool": _unary(_global_average_pool),
    "QLinearReduceMean": _unary(_reduce_mean),
    "QLinearConcat": _concat,
    "QLinearWhere": _where,
    "QLinearConv": _conv,
    "NhwcMaxPool": _max_pool,
    "MulInteger": _mul_integer,
    "ReduceSumInteger": _reduce_sum_integer,
}
