"""com.microsoft: matrix products and convolutions with something fused to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import table_conv, table_linear
from cuvil.frontends.onnx.node import Handler, Node, Refused
from cuvil.ir.core import Value


def activated(n: Node, x: Value, name: str, given: Sequence[float]) -> Value:
    """An activation by the name that FusedConv and FusedGemm have for it.

    ``given`` are its parameters in the order alpha, beta; what is left out has the default of the
    ONNX operator of that name.
    """
    e = n.e

    def parameter(index: int, default: float) -> float:
        return given[index] if index < len(given) else default

    if name in ("Tanh", "Sigmoid"):
        return e.op(name.lower(), x)
    if name == "Relu":
        return e.with_scalar("max", x, 0)
    if name == "LeakyRelu":
        low = e.with_scalar("mul", x, parameter(0, 0.01))
        return e.op("select", e.with_scalar("lt", x, 0), low, x)
    if name == "Clip":
        low, high = parameter(0, -np.inf), parameter(1, np.inf)
        return e.with_scalar("min", e.with_scalar("max", x, low), high)
    if name in ("HardSigmoid", "HardSwish"):
        swish = name == "HardSwish"
        alpha = parameter(0, 1 / 6 if swish else 0.2)
        line = e.with_scalar("add", e.with_scalar("mul", x, alpha), parameter(1, 0.5))
        line = e.with_scalar("min", e.with_scalar("max", line, 0), 1)
        return e.op("mul", x, line) if swish else line
    if name == "Gelu":
        return e.op("gelu", x)
    raise Refused(f"activation {name!r}", "save the model with fewer optimisations")


def fused_activation(n: Node, x: Value) -> Value:
    """The attribute ``activation`` applied, where there is one."""
    name = n.text("activation", "")
    if not name:
        return x
    given = list(n.attrs.get("activation_params", ()))
    if not given:
        names = ("activation_alpha", "activation_beta", "activation_gamma")
        given = [n.number(key) for key in names if key in n.attrs]
    return activated(n, x, name, given)


def _batch_turned(n: Node, x: Value) -> Value:
    """[d0, d1 .. dk, c] to [d1 .. dk, d0, c]: the first dim joins the matrix."""
    rank = x.type.rank
    if rank < 3:
        raise InvalidModelError(f"{n.op}: a transposed batch needs rank 3 or more, got {x.type}")
    return n.e.transpose(x, (*range(1, rank - 1), 0, rank - 1))


def _side(n: Node, index: int, letter: str) -> Value:
    x = n[index]
    if n.integer(f"transBatch{letter}", 0):
        x = _batch_turned(n, x)
    rank = x.type.rank
    if n.integer(f"trans{letter}", 0) and rank > 1:
        x = n.e.transpose(x, (*range(rank - 2), rank - 1, rank - 2))
    return x


def _fused_matmul(n: Node) -> Value:
    """alpha * A' B' as numpy.matmul."""
    out = table_linear.matmul(n, _side(n, 0, "A"), _side(n, 1, "B"))
    alpha = n.number("alpha", 1.0)
    out = n.e.with_scalar("mul", out, alpha) if alpha != 1.0 else out
    return fused_activation(n, out)


def _fused_gemm(n: Node) -> Value:
    return fused_activation(n, table_linear.gemm(n.with_inputs(n.inputs, version=13)))


def _fused_conv(n: Node) -> Value:
    """conv(x, w) + b + z, then the activation."""
    out = table_conv.conv(n)
    out = n.e.map("add", out, n[3]) if n.has(3) else out
    return fused_activation(n, out)


def channels_first(n: Node, x: Value) -> Value:
    """[N, *spatial, C] to [N, C, *spatial]."""
    rank = x.type.rank
    return n.e.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def channels_last(n: Node, x: Value) -> Value:
    """[N, C, *spatial] to [N, *spatial, C]."""
    return n.e.transpose(x, (0, *range(2, x.type.rank), 1))


def _nhwc_conv(n: Node) -> Value:
    """Conv with channels last in the image and, as onnxruntime's fusion writes them whatever its
    documentation says, in the weights: [M, kH, kW, C / group]."""
    weight = channels_first(n, n[1])
    turned = n.with_inputs([channels_first(n, n[0]), weight, *n.inputs[2:3]])
    return channels_last(n, table_conv.conv(turned))


def _nhwc_fused_conv(n: Node) -> Value:
    """FusedConv over an image with its channels last; the weights are as for Conv."""
    turned = n.with_inputs([channels_first(n, n[0]), *n.inputs[1:3]])
    out = channels_last(n, table_conv.conv(turned))
    out = n.e.map("add", out, n[3]) if n.has(3) else out
    return fused_activation(n, out)


def _conv_transpose(n: Node) -> Value:
    """ConvTranspose with its pads as an input."""
    inputs = [n[0], n[1], n.inputs[3] if n.has(3) else None]
    attrs = dict(n.attrs)
    if n.has(2):
        attrs["pads"] = n.static(2, "the padding")
    return table_conv.conv_transpose(n.with_inputs(inputs, attrs))


def _gemm_fast_gelu(n: Node) -> Value:
    out = table_linear.matmul(n, n[0], n[1])
    out = n.e.map("add", out, n[2]) if n.has(2) else out
    return n.e.op("gelu_tanh", out)


TABLE: dict[str, Handler] = {
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedGemm": _fused_gemm,
    "GemmFastGelu": _gemm_fast_gelu,
    "FusedConv": _fused_conv,
    "NhwcConv": _nhwc_conv,
    "NhwcFusedConv": _nhwc_fused_conv,
    "ConvTransposeWithDynamicPads": _conv_transpose,
}
