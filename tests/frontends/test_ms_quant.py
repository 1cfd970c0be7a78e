"""Quantized operators of com.microsoft against onnxruntime: floats closely, bytes within one step
(onnxruntime folds scales into its multipliers, so ties may fall either way)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from tests.frontends.ms_models import Call, Maker, check

U8, I8, F32 = np.uint8, np.int8, np.float32
BYTES = pytest.mark.parametrize("kind", [U8, I8])


def _scale(number: float) -> Any:
    return np.array(number, F32)


def _quantized(m: Maker, kind: Any, *shape: int) -> list[Any]:
    """A tensor, its scale, its zero point."""
    zero = m.ints(90, 160, kind=U8) if kind is U8 else m.ints(-30, 30, kind=I8)
    return [m.bytes(kind, *shape), m.scales(low=0.02, high=0.1), np.asarray(zero, kind)]


@BYTES
def test_elementwise(kind: Any) -> None:
    m = Maker()
    for op, scale in (("QLinearAdd", 0.15), ("QLinearMul", 4.0)):
        for a, b in (((3, 40), (3, 40)), ((3, 40), (40,)), ((3, 1), (1, 40)), ((3, 40), ())):
            inputs = [*_quantized(m, kind, *a), *_quantized(m, kind, *b)]
            check(Call(op, [*inputs, _scale(scale), np.array(3, kind)]), steps=1)
    low = np.array(np.iinfo(kind).min, kind)
    check(Call("QLinearSigmoid", [*_quantized(m, kind, 5, 60), _scale(1 / 256), low]), steps=1)
    inputs = [*_quantized(m, kind, 5, 60), _scale(0.07), np.array(30, kind)]
    check(Call("QLinearLeakyRelu", inputs, {"alpha": 0.3}), steps=1)
    for opset, axis in ((13, -1), (13, 1), (12, 1), (12, -1)):
        inputs = [*_quantized(m, kind, 2, 3, 40), _scale(1 / 256), low]
        check(Call("QLinearSoftmax", inputs, {"opset": opset, "axis": axis}), steps=1)
    tail = [_scale(0.07), np.array(3, kind)]
    parts = [x for n in (3, 5, 4) for x in _quantized(m, kind, 2, n)]
    check(Call("QLinearConcat", [*tail, *parts], {"axis": 1}), steps=1)
    pair = [*_quantized(m, kind, 3, 40), *_quantized(m, kind, 1, 40)]
    check(Call("QLinearWhere", [m.mask(3, 40) > 0, *pair, *tail]), steps=1)


@BYTES
@pytest.mark.parametrize("last", [0, 1])
def test_pools_and_convolutions(kind: Any, last: int) -> None:
    m = Maker()
    x, out = _quantized(m, kind, 2, 3, 7, 9), [_scale(0.07), np.array(30, kind)]
    base = {"channels_last": last}
    for attrs in (
        {"kernel_shape": [2, 3], "strides": [2, 1]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER"},
    ):
        check(Call("QLinearAveragePool", [*x, *out], {**attrs, **base}), steps=1)
    check(Call("QLinearGlobalAveragePool", [*x, *out], base), steps=1)
    attrs = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    check(Call("NhwcMaxPool", [m.bytes(kind, 1, 7, 9, 3)], attrs))
    x = _quantized(m, kind, 1, 7, 9, 4) if last else _quantized(m, kind, 1, 4, 7, 9)
    out = [_scale(0.3), np.array(5, kind)]
    for groups in (1, 2):
        w = m.bytes(I8, 6, 4 // groups, 3, 3)
        inputs = [*x, w, m.scales(6), np.zeros(6, I8), *out, m.ints(-999, 999, 6)]
        attrs = {**base, "group": groups, "pads": [1, 1, 1, 1]}
        check(Call("QLinearConv", inputs, attrs, constants=(3, 4, 5, 8)), steps=1)


@pytest.mark.parametrize(("kind", "weights"), [(U8, I8), (I8, I8), (U8, U8)])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_integer_convolutions(kind: Any, weights: Any, groups: int) -> None:
    """Padding counts as the zero point, whether that is known at compile time or not."""
    m = Maker()
    x, w = m.bytes(kind, 2, 4, 7, 9), m.bytes(weights, 8, 4 // groups, 3, 3)
    zeros = [np.array(7, kind), np.array(3, weights)]
    for attrs in (
        {"pads": [1, 1, 1, 1]}, {"strides": [2, 1]}, {"dilations": [2, 1], "pads": [0, 2, 1, 0]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ):  # fmt: skip
        attrs = {**attrs, "group": groups}
        for stored in ((), (1, 3), (1, 2, 3)):
            check(Call("ConvInteger", [x, w, *zeros], attrs, constants=stored, domain=""))
        check(Call("ConvInteger", [x, w], attrs, constants=(1,), domain=""))


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16])
def test_quantize_and_back(kind: Any) -> None:
    m = Maker()
    check(Call("QuantizeLinear", [m.f(3, 8), _scale(0.05), np.array(3, kind)]))
    inputs = [m.f(3, 8), np.full(8, 0.05, F32), np.full(8, 3, kind)]
    check(Call("QuantizeLinear", inputs, {"axis": 1}))
    x = m.ints(0, 100, 3, 8, kind=kind)
    check(Call("DequantizeLinear", [x, _scale(0.05), np.array(3, kind)]))
    check(Call("DequantizeLinear", [x, _scale(0.05)]))
    inputs = [x, np.full(3, 0.05, F32), np.full(3, 3, kind)]
    check(Call("DequantizeLinear", inputs, {"axis": 0}))


def _zeros(m: Maker, kind: Any, *shape: int) -> Any:
    return np.asarray(m.ints(100, 150, *shape) if kind is U8 else m.ints(-20, 20, *shape), kind)


@BYTES
@pytest.mark.parametrize("stored", [False, True])
def test_products(kind: Any, stored: bool) -> None:
    """With weights in the model (which are shifted to i8) and as inputs."""
    m = Maker()

    def run(op: str, inputs: list[Any], weights: tuple[int, ...], **more: Any) -> None:
        check(Call(op, inputs, constants=weights if stored else (), **more), 1e-4, steps=1)

    b, za = m.bytes(kind, 40, 6), np.array(120, U8)
    run("DynamicQuantizeMatMul", [m.f(3, 40), b, _scale(0.02), _zeros(m, kind), m.f(6)], (1, 2, 3))
    run("DynamicQuantizeMatMul", [m.f(2, 3, 40), b, m.scales(6), _zeros(m, kind, 6)], (1, 2, 3))
    run("DynamicQuantizeMatMul", [m.f(2, 3, 40), b, m.scales(6)], (1, 2))
    inputs = [m.bytes(U8, 3, 40), b, _scale(0.1), m.scales(6), za, _zeros(m, kind, 6), m.f(6)]
    run("MatMulIntegerToFloat", inputs, (1, 3, 5))
    run("MatMulIntegerToFloat", [m.bytes(U8, 2, 3, 40), b, _scale(0.1), _scale(0.02)], (1, 3))
    a = [m.bytes(U8, 3, 40), _scale(0.1), za]
    out = [_scale(3.0), np.array(100, U8)]
    bias = m.ints(-999, 999, 6)
    run("QGemm", [*a, b, _scale(0.02), _zeros(m, kind), bias, *out], (3, 4, 5))
    inputs = [np.ascontiguousarray(a[0].T), *a[1:], np.ascontiguousarray(b.T)]
    attrs = {"transA": 1, "transB": 1, "alpha": 0.5}
    run("QGemm", [*inputs, m.scales(6), _zeros(m, kind, 6)], (3, 4, 5), attrs=attrs)
    for lead in ((), (2,)):
        left = m.bytes(U8, *lead, 3, 40)
        for zero in (_zeros(m, kind), _zeros(m, kind, 6)):
            run("MatMulInteger", [left, b, za, zero], (1, 3), domain="")
            inputs = [left, _scale(0.1), za, b, m.scales(*zero.shape), zero, *out]
            run("QLinearMatMul", inputs, (3, 5), domain="")
        run("MatMulInteger", [left, b], (1,), domain="")
    run("MatMulInteger", [m.bytes(U8, 2, 3, 40), m.bytes(kind, 2, 40, 6), za, _zeros(m, kind)],
        (1, 3), domain="")  # fmt: skip


def test_products_of_other_integers() -> None:
    m = Maker()
    wide = [m.ints(-900, 900, 3, 40, kind=np.int16), m.ints(-900, 900, 40, 5, kind=np.int16)]
    check(Call("MatMulInteger16", wide))
    three = np.array(3, I8)
    inputs = [m.bytes(I8, 3, 40), m.bytes(I8, 40, 6), _scale(0.1), m.scales(6), three]
    check(Call("MatMulIntegerToFloat", inputs, constants=(1, 3)), 1e-4)


@BYTES
@pytest.mark.parametrize("stored", [(), (1, 7)])
def test_attention(kind: Any, stored: tuple[int, ...]) -> None:
    m = Maker()
    x, w, b, za = m.bytes(U8, 2, 5, 7), m.bytes(kind, 7, 36), m.f(36), np.array(120, U8)
    for causal in (0, 1):
        base = {"num_heads": 3, "unidirectional": causal}
        inputs = [x, w, b, _scale(0.02), _scale(0.03), None, za, _zeros(m, kind)]
        check(Call("QAttention", inputs, base, constants=stored), 1e-4)
        ends = np.array([3, 5], np.int32)
        inputs = [x, w, b, _scale(0.02), m.scales(36), ends, za, _zeros(m, kind, 36)]
        check(Call("QAttention", inputs, base, constants=stored), 1e-4)
        inputs = [*inputs[:5], None, *inputs[6:], m.f(2, 2, 3, 3, 4)]
        check(Call("QAttention", inputs, base, ("y", "p"), stored), 1e-4)


def test_embeddings() -> None:
    m = Maker()
    ids, segments = m.ints(0, 20, 2, 5), m.ints(0, 2, 2, 5)
    tables = [m.bytes(U8, *s) for s in ((20, 8), (9, 8), (2, 8), (8,), (8,))]
    scales, zeros = [_scale(0.02)] * 5, [np.array(3, U8)] * 5
    inputs = [ids, segments, *tables, m.mask(2, 5), *scales, *zeros]
    check(Call("QEmbedLayerNormalization", inputs, {}, ("y", "m")), 1e-4)
    for absent in (1, 4, 10, 15):
        inputs[absent] = None
    check(Call("QEmbedLayerNormalization", inputs, {}, ("y", "m")), 1e-4)


@BYTES
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm(kind: Any, direction: str) -> None:
    """onnxruntime rounds inputs and states to bytes in each step, which we don't: its error."""
    m = Maker()
    inner, hidden, d = 6, 5, 2 if direction == "bidirectional" else 1
    for shape in ((d,), (d, 4 * hidden)):
        zero = np.full(shape, 0 if kind is I8 else 128, kind)
        weights = [m.bytes(kind, d, inner, 4 * hidden), m.bytes(kind, d, hidden, 4 * hidden)]
        states = [m.f(d, 2, hidden), m.f(d, 2, hidden), m.f(d, 3 * hidden)]
        scales = [m.scales(*shape, low=0.002, high=0.005) for _ in range(2)]
        tail = [scales[0], zero, scales[1], zero]
        attrs = {"hidden_size": hidden, "direction": direction}
        lengths = np.array([7, 4], np.int32)
        for middle in ([None] * 5, [m.f(d, 8 * hidden), lengths, *states]):
            inputs = [m.f(7, 2, inner), *weights, *middle, *tail]
            call = Call("DynamicQuantizeLSTM", inputs, attrs, ("y", "h", "c"), (1, 2, 8, 9, 10, 11))
            check(call, 2e-2)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("inner", "size"), [(64, 16), (70, 32), (40, 64)])
def test_weights_in_blocks(bits: int, inner: int, size: int) -> None:
    m = Maker()
    blocks, n = -(-inner // size), 6
    packed = m.bytes(U8, n, blocks, size * bits // 8)
    zeros: list[Any] = [None, m.bytes(U8, n, -(-blocks * bits // 8))]
    if bits == 4:
        zeros.append(m.scales(n, blocks, low=0, high=15))
    attrs = {"K": inner, "N": n, "bits": bits, "block_size": size}
    for zero in zeros:
        inputs = [m.f(2, 3, inner), packed, m.scales(n, blocks), zero]
        check(Call("MatMulNBits", inputs, attrs, constants=(1, 2, 3)), 1e-4)
    inputs = [m.f(2, 3, inner), packed, m.scales(n, blocks), None, None, m.f(n)]
    check(Call("MatMulNBits", inputs, attrs, constants=(1, 2, 5)), 1e-4)
    check(Call("MatMulNBits", inputs, attrs), 1e-4)


def test_constant_weights_in_blocks_stay_packed() -> None:
    m = Maker()
    inputs = [m.f(3, 64), m.bytes(U8, 6, 2, 16), m.scales(6, 2), m.bytes(U8, 6, 1)]
    attrs = {"K": 64, "N": 6, "bits": 4, "block_size": 32}
    for stored, packed in (((1, 2, 3), True), ((1, 2), False), ((), False)):
        module = capture_onnx(Call("MatMulNBits", inputs, attrs, constants=stored).model())
        found = {op.short for op in module.main.body.ops}
        assert ("matmul_blocks" in found) == packed
        assert ("matmul" in found) != packed


@pytest.mark.parametrize("kind", [0, 1])
def test_weights_of_four_bit_floats(kind: int) -> None:
    m = Maker()
    for inner, size in ((64, 16), (70, 32), (33, 64)):
        packed, peaks = m.bytes(U8, (5 * inner + 1) // 2), m.scales(-(-5 * inner // size))
        attrs = {"K": inner, "N": 5, "block_size": size, "quant_type": kind}
        inputs = [m.f(2, 3, inner), packed, peaks]
        check(Call("MatMulBnb4", inputs, attrs, constants=(1, 2)), 1e-4)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_gather_from_blocks(bits: int) -> None:
    m = Maker()
    attrs = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    data, scales = m.bytes(U8, 9, 48 * bits // 8), m.scales(9, 3)
    for zero in (None, m.bytes(U8, 9, -(-3 * bits // 8))):
        for places in (np.array([3, 0, -1, 7], np.int64), np.array([[1, 2], [3, 40]], np.int32)):
            inputs = [data, places, scales, zero]
            check(Call("GatherBlockQuantized", inputs, attrs, constants=(0, 2, 3)))
    inputs = [m.bytes(U8, 9, 4, 4 * bits), np.array([1, 2]), m.scales(9, 4, 2)]
    check(Call("GatherBlockQuantized", inputs, {**attrs, "quantize_axis": 2}, constants=(0, 2)))
    with pytest.raises(UnsupportedOpError, match="along the quantized dimension"):
        Call("GatherBlockQuantized", [data, np.array([1]), scales],
             {**attrs, "gather_axis": 1}, constants=(0, 2)).ours()  # fmt: skip


@pytest.mark.parametrize("kind", ["int4", "uint4", "float8_e4m3fn"])
def test_gather_from_narrow_tables(kind: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    m, narrow = Maker(), np.dtype(getattr(ml_dtypes, kind))
    places = np.array([3, 0, -1, 20], np.int64)
    if kind.startswith("float"):
        table = m.f(9, 32).astype(narrow)
        base: dict[str, Any] = {"gather_axis": 0, "quantize_axis": 1}
        for size, scales in ((16, (9, 2)), (0, (9, 1)), (0, (1, 1))):
            inputs = [table, places, m.scales(*scales)]
            attrs = {**base, "block_size": size}
            check(Call("GatherBlockQuantized", inputs, attrs, constants=(0, 2), opset=21))
        return
    low, high = (-8, 8) if kind == "int4" else (0, 16)
    table = m.ints(low, high, 9, 4, 32).astype(np.int8).astype(narrow)
    for zero in (None, m.ints(low, high, 9, 4, 2).astype(np.int8).astype(narrow)):
        for axis in (0, 1):
            attrs = {"block_size": 16, "gather_axis": axis, "quantize_axis": 2}
            inputs = [table, np.array([3, 0, -1], np.int64), m.scales(9, 4, 2), zero]
            check(Call("GatherBlockQuantized", inputs, attrs, constants=(0, 2, 3), opset=21))


def test_what_weights_in_blocks_refuse() -> None:
    m = Maker()
    inputs = [m.f(3, 64), m.bytes(U8, 6, 4, 8), m.scales(6, 4), None, m.ints(0, 4, 64)]
    base = {"K": 64, "N": 6, "bits": 4, "block_size": 16}
    for given, attrs, reason in (
        (inputs, base, "a group index"),
        (inputs[:3], {**base, "weight_prepacked": 1}, "packed for one kind of GPU"),
        (inputs[:3], {**base, "bits": 3}, "weights of 3 bits"),
    ):
        with pytest.raises(UnsupportedOpError, match=reason):
            Call("MatMulNBits", given, attrs, constants=(1, 2)).ours()
