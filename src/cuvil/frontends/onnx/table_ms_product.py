"""com.microsoft: products of quantized matrices, and layers around them.

Products are exact in i32; scales are applied in f32 (onnxruntime's ContribOperators).
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx import table_recurrent
from cuvil.frontends.onnx.node import Handler, Item, Node, Refused
from cuvil.frontends.onnx.table_ms_attention import self_attention
from cuvil.frontends.onnx.table_ms_norm import embedded, layer_norm, mask_index
from cuvil.frontends.onnx.table_quant import dequantized, dynamically_quantized, quantized
from cuvil.frontends.onnx.table_quant_product import integer_product, per_row
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I32


def _scaled(n: Node, exact: Value, a_scale: Value, b_scale: Value) -> Value:
    """i32 times the scales of both sides, per tensor, row or column."""
    e = n.e
    scale = e.map("mul", per_row(n, a_scale, -2), per_row(n, b_scale, -1))
    return e.map("mul", e.cast(exact, scale.type.dtype), scale)


def _biased(n: Node, x: Value, index: int) -> Value:
    return n.e.map("add", x, n[index]) if n.has(index) else x


def _dynamic_matmul(n: Node) -> Value:
    """A quantized over its range, times B; inputs A, B, b_scale, b_zero, bias."""
    a, a_scale, a_zero = dynamically_quantized(n, n[0])
    exact = integer_product(n, a, n[1], a_zero, n.optional(3))
    return _biased(n, _scaled(n, exact, a_scale, n[2]), 4)


def _matmul_to_float(n: Node) -> Value:
    exact = integer_product(n, n[0], n[1], n.optional(4), n.optional(5))
    return _biased(n, _scaled(n, exact, n[2], n[3]), 6)


def _turned(n: Node, x: Value, attribute: str) -> Value:
    return n.e.transpose(x, (1, 0)) if n.integer(attribute, 0) else x


def _qgemm(n: Node) -> Value:
    """alpha * A' B' with C in i32 added to the exact product; quantized where y_scale is given."""
    e = n.e
    if n[0].type.rank != 2 or n[3].type.rank != 2:
        raise InvalidModelError(f"QGemm needs matrices, got {n[0].type} and {n[3].type}")
    a, b = _turned(n, n[0], "transA"), _turned(n, n[3], "transB")
    exact = integer_product(n, a, b, n[2], n[5])
    exact = e.map("add", exact, n[6]) if n.has(6) else exact
    out = _scaled(n, exact, n[1], n[4])
    alpha = n.number("alpha", 1.0)
    out = e.with_scalar("mul", out, alpha) if alpha != 1.0 else out
    if not n.has(7):
        return out
    zero = e.reshape(n[8], ()) if n.has(8) else None
    kind = n[8].type.dtype if n.has(8) else n[0].type.dtype
    return quantized(n, out, e.reshape(n[7], ()), zero, kind)


def _q_attention(n: Node) -> Sequence[Item | None]:
    exact = integer_product(n, n[0], n[1], n.optional(6), n.optional(7))
    qkv = n.e.map("add", _scaled(n, exact, n[3], n[4]), n[2])
    return self_attention(n, qkv, n.optional(5), n.optional(8), None)


def _plain(n: Node, index: int, scale: int, zero: int) -> Value:
    return dequantized(n, n[index], n.e.reshape(n[scale], ()), n.e.reshape(n[zero], ()))


def _q_embed(n: Node) -> Sequence[Item | None]:
    """EmbedLayerNormalization over quantized tables."""
    segments = _plain(n, 4, 10, 15) if n.has(4) else None
    total = embedded(n, _plain(n, 2, 8, 13), _plain(n, 3, 9, 14), segments, None)
    gamma, beta = _plain(n, 5, 11, 16), _plain(n, 6, 12, 17)
    out = layer_norm(n, total, gamma, beta, n.number("epsilon", 1e-12))
    return [out, mask_index(n, 7)]


def _gates(n: Node, index: int, scale: int, zero: int) -> Value:
    """Quantized gate weights [D, K, 4 H] (scales [D] or [D, 4 H]) as f32 [D, 4 H, K]."""
    e, w = n.e, n[index]

    def spread(value: Value) -> Value:
        if value.type.rank == 1:
            return e.reshape(value, (*value.type.shape, 1, 1))
        return e.unsqueeze(value, 1)

    wide = e.cast(w, I32)
    if n.has(zero):
        wide = e.map("sub", wide, e.cast(spread(n[zero]), I32))
    real = e.map("mul", e.cast(wide, F32), spread(n[scale]))
    return e.transpose(real, (0, 2, 1))


def _dynamic_lstm(n: Node) -> Sequence[Item | None]:
    """The LSTM of the weights that the bytes stand for; inputs and states stay f32.

    onnxruntime rounds inputs and states to bytes on the way, which this operator is free to leave
    out: what comes out is nearer to the layer that was quantized.
    """
    if n[1].type.dtype.size != 1 or n[2].type.dtype.size != 1:
        raise Refused(f"weights of type {n[1].type.dtype}", "quantize them to 8 bits")
    w, r = _gates(n, 1, 8, 9), _gates(n, 2, 10, 11)
    return table_recurrent.lstm(n.with_inputs([n[0], w, r, *n.inputs[3:8]]))


TABLE: dict[str, Handler] = {
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _matmul_to_float,
    "MatMulInteger16": lambda n: integer_product(n, n[0], n[1], None, None),
    "QGemm": _qgemm,
    "QAttention": _q_attention,
    "QEmbedLayerNormalization": _q_embed,
    "DynamicQuantizeLSTM": _dynamic_lstm,
}
