"""com.microsoft's fused layers and odds and ends, against onnxruntime; those that it has on GPUs
only against their definition in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cuvil.errors import UnsupportedOpError
from tests.frontends.ms_models import Call, Maker, check, compare

Array = np.ndarray[Any, Any]


def _gelu(x: Array) -> Array:
    erf = np.vectorize(math.erf)
    return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def _against(call: Call, *want: Array, tolerance: float = 2e-5) -> None:
    kinds = [a.dtype for a in call.ours()]
    compare(call.ours(), [w.astype(k) for w, k in zip(want, kinds, strict=True)], tolerance)


def test_activations() -> None:
    m = Maker()
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        check(Call(op, [m.f(3, 7)]))
    check(Call("FastGelu", [m.f(3, 7), m.f(7)]))
    check(Call("BiasGelu", [m.f(2, 3, 7), m.f(7)]))
    check(Call("QuickGelu", [m.f(3, 7)], {"alpha": 0.7}))
    check(Call("ScaledSiLU", [m.f(3, 7)], {"alpha": 0.7}))
    for kind in (np.float32, np.float16):
        check(Call("ScaledSiLU", [m.f(3, 7).astype(kind), np.array(0.3, np.float32)]), 2e-3)


def test_activations_of_gpus() -> None:
    m = Maker()
    x, bias, skip = m.f(2, 3, 8), m.f(8), m.f(2, 3, 8)
    total = x.astype(np.float64) + bias
    _against(Call("BiasSplitGelu", [x, bias]), total[..., :4] * _gelu(total[..., 4:]))
    _against(Call("BiasAdd", [x, bias, skip]), total + skip)
    call = Call("BiasDropout", [x, bias, skip], outputs=("y", "mask"))
    _against(call, total + skip, np.ones(x.shape))
    e = np.exp(x + m.f(1, 1, 8) * 0)
    attrs: dict[str, Any] = {"axis": 2, "is_inner_broadcast": 0}
    zero = np.zeros((1, 1, 8), np.float32)
    _against(Call("BiasSoftmax", [x, zero], attrs), e / e.sum(-1, keepdims=True))
    gate, up = x[..., :4].astype(np.float64), x[..., 4:]
    _against(Call("SwiGLU", [x]), _silu(gate) * up)
    attrs = {"limit": 0.5, "activation_alpha": 1.7, "activation_beta": 1.0}
    g, u = np.minimum(gate, 0.5), np.clip(up, -0.5, 0.5)
    want = g / (1 + np.exp(-1.7 * g)) * (u + 1)
    _against(Call("SwiGLU", [x[..., :4], x[..., 4:]], attrs), want)


def test_fused_products() -> None:
    m = Maker()
    for ta in (0, 1):
        for tb in (0, 1):
            a = m.f(2, 4, 3) if ta else m.f(2, 3, 4)
            b = m.f(2, 5, 4) if tb else m.f(2, 4, 5)
            check(Call("FusedMatMul", [a, b], {"transA": ta, "transB": tb, "alpha": 0.3}))
    both = {"transBatchA": 1, "transBatchB": 1}
    check(Call("FusedMatMul", [m.f(3, 2, 5, 4), m.f(2, 5, 4, 6)], {"transBatchA": 1}))
    check(Call("FusedMatMul", [m.f(3, 2, 5, 4), m.f(4, 2, 5, 6)], both))
    check(Call("FusedMatMul", [m.f(4, 2, 5, 3), m.f(4, 2, 5, 6)], {**both, "transA": 1}))
    check(Call("FusedMatMul", [m.f(3, 4), m.f(4)]))
    check(Call("TransposeMatMul", [m.f(4, 3), m.f(4, 5)], {"transA": 1}))
    for name, more in (
        ("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_alpha": 0.2}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.1}),
    ):  # fmt: skip
        attrs = {"activation": name, "alpha": 0.5, "beta": 0.3, **more}
        check(Call("FusedGemm", [m.f(3, 4), m.f(4, 5), m.f(5)], attrs))
    a, b, c = m.f(3, 4), m.f(4, 5), m.f(5)
    inner = a.astype(np.float64) @ b + c
    cubic = np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3))
    _against(Call("GemmFastGelu", [a, b, c]), 0.5 * inner * (1 + cubic))


def test_fused_convolutions() -> None:
    m = Maker()
    x, w, b = m.f(1, 3, 6, 7), m.f(4, 3, 3, 3), m.f(4)
    for name, given in (
        ("Relu", ()), ("Tanh", ()), ("Sigmoid", ()), ("LeakyRelu", (0.2,)), ("Clip", (-0.1, 0.4)),
        ("HardSigmoid", (0.3, 0.1)),
    ):  # fmt: skip
        attrs = {"activation": name, "pads": [1, 1, 1, 1]}
        attrs |= {"activation_params": list(given)} if given else {}
        check(Call("FusedConv", [x, w, b], attrs, constants=(1, 2)))
    inputs = [x, w, b, m.f(1, 4, 4, 5)]
    check(Call("FusedConv", inputs, {"activation": "Relu"}, constants=(1, 2)))
    (want,) = Call("FusedConv", [x, w, b], {"strides": [2, 1]}, constants=(1, 2)).ours()
    turned = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    last = np.ascontiguousarray(w.transpose(0, 2, 3, 1))
    for op, weight in (("NhwcConv", last), ("NhwcFusedConv", w)):
        inputs = [turned, weight, b]
        (got,) = Call(op, inputs, {"strides": [2, 1]}, constants=(1, 2)).ours()
        np.testing.assert_array_equal(got, want.transpose(0, 2, 3, 1))
    inputs = [x, m.f(3, 4, 3, 3), np.array([1, 0, 1, 2], np.int64), b]
    attrs = {"strides": [2, 2], "output_padding": [1, 1]}
    check(Call("ConvTransposeWithDynamicPads", inputs, attrs, constants=(1, 2, 3)))
    with pytest.raises(UnsupportedOpError, match="activation 'Selu'"):
        Call("FusedConv", [x, w, b], {"activation": "Selu"}, constants=(1, 2)).ours()


def test_norms_with_residuals() -> None:
    m = Maker()
    last = ("y", "", "", "s")
    x = m.f(2, 3, 8)
    for shape in ((2, 3, 8), (1, 3, 8), (3, 8)):
        inputs = [x, m.f(*shape), m.f(8), m.f(8), m.f(8)]
        check(Call("SkipLayerNormalization", inputs, {"epsilon": 1e-5}, last))
    check(Call("SkipLayerNormalization", [x, m.f(2, 3, 8), m.f(8)]))
    check(Call("SkipLayerNormalization", [m.f(3, 8), m.f(3, 8), m.f(8), None, m.f(8)], {}, last))
    inputs = [x, m.f(2, 3, 8), m.f(8)]
    check(Call("SkipLayerNormalization", inputs, {}, ("y", "mean", "deviation", "s")))
    check(Call("SkipSimplifiedLayerNormalization", [*inputs, m.f(8)], {}, last))
    half = [a.astype(np.float16) for a in inputs]
    check(Call("SkipSimplifiedLayerNormalization", half, {"epsilon": 1e-6}, last), 3e-3)
    check(Call("SimplifiedLayerNormalization", [x, m.f(8)], {}, ("y", "i"), domain=""))
    attrs = {"axis": 1, "epsilon": 1e-3}
    check(Call("SimplifiedLayerNormalization", [x, m.f(3, 8)], attrs, domain=""))
    for name in ("silu", "swish", "sigmoid"):
        check(Call("GatedRMSNorm", [x, m.f(4), m.f(2, 3, 8)], {"activation": name}))


def test_group_norms() -> None:
    m = Maker()
    x, gamma, beta, skip, bias = m.f(2, 3, 4, 6), m.f(6), m.f(6), m.f(2, 6), m.f(6)

    def norm(a: Array) -> Array:
        grouped = a.astype(np.float64).reshape(2, 12, 2, 3)
        away = grouped - grouped.mean((1, 3), keepdims=True)
        out = away / np.sqrt((away**2).mean((1, 3), keepdims=True) + 1e-5)
        return out.reshape(a.shape) * gamma + beta

    attrs: dict[str, Any] = {"groups": 2, "activation": 1}
    _against(Call("GroupNorm", [x, gamma, beta], attrs), _silu(norm(x)))
    total = x + skip[:, None, None] + bias
    call = Call("SkipGroupNorm", [x, gamma, beta, skip, bias], {**attrs, "activation": 0},
                ("y", "s"))  # fmt: skip
    _against(call, norm(total), total)
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    call = Call("GroupNorm", [first, gamma, beta], {**attrs, "channels_last": 0})
    _against(call, _silu(norm(x)).transpose(0, 3, 1, 2))


def test_embeddings() -> None:
    m = Maker()
    ids, segments = m.ints(0, 20, 2, 5), m.ints(0, 2, 2, 5)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 1, 1]], np.int32)
    tables = [m.f(20, 8), m.f(9, 8), m.f(2, 8), m.f(8), m.f(8)]
    outputs = ("y", "m")
    for tail in (
        [mask], [2 * mask], [], [None, m.ints(0, 9, 2, 5)], [None, m.ints(0, 9, 1, 5)],
    ):  # fmt: skip
        check(Call("EmbedLayerNormalization", [ids, segments, *tables, *tail], {}, outputs))
    inputs = [ids, None, tables[0], tables[1], None, *tables[3:], mask]
    attrs = {"epsilon": 1e-5}
    check(Call("EmbedLayerNormalization", inputs, attrs, outputs))
    inputs = [ids, segments, *tables, mask]
    check(Call("EmbedLayerNormalization", inputs, attrs, ("y", "m", "sum")))


def test_shapes_and_indices() -> None:
    m = Maker()
    i64 = np.int64
    check(Call("Trilu", [m.f(3, 4, 5)]))
    check(Call("Trilu", [m.f(3, 4, 5), np.array(1, i64)], {"upper": 0}, constants=(1,)))
    numbers = [np.array(x, np.float32) for x in (1, 7, 1.5)]
    check(Call("Range", numbers, constants=(0, 1, 2)))
    check(Call("Range", [np.array([2], i64), np.array([9], i64)], constants=(0, 1)))
    pads = np.array([1, 0, 0, 2], i64)
    check(Call("Pad", [m.f(3, 4), pads, np.array(3, np.float32)], constants=(1, 2)))
    check(Call("Pad", [m.f(3, 4), pads[None]], {"mode": "reflect"}, constants=(1,)))
    for axis in (-1, 1):
        check(Call("ExpandDims", [m.f(3, 4), np.array(axis, np.int32)], constants=(1,)))
    check(Call("GatherND", [m.f(3, 4, 5), np.array([[0, 1], [2, 3]], i64)]))
    for mode in ("bilinear", "nearest", "bicubic"):
        grid = m.scales(1, 3, 4, 2, low=-1.2, high=1.2)
        attrs = {"mode": mode, "padding_mode": "border", "align_corners": 1}
        check(Call("GridSample", [m.f(1, 2, 5, 6), grid], attrs), 1e-4)
    for dim, size, step in ((-1, 3, 2), (0, 2, 1)):
        check(Call("UnfoldTensor", [m.f(4, 9)], {"dim": dim, "size": size, "step": step}))
    _against(Call("TorchEmbedding", [table := m.f(6, 4), np.array([[1, 5]])]), table[[[1, 5]]])


def test_distances_hashes_and_repeats() -> None:
    m = Maker()
    for metric in ("euclidean", "sqeuclidean"):
        check(Call("CDist", [m.f(5, 7), m.f(6, 7)], {"metric": metric}), 1e-4)
    ids = np.array([[1, 2, 3, 1, 2], [0, 0, 0, 0, 0]], np.int64)
    for size in (1, 2, 3, 5, 6):
        check(Call("NGramRepeatBlock", [ids, m.f(2, 5)], {"ngram_size": size}))
    for kind in (np.int32, np.int64, np.uint32, np.uint64):
        x = m.ints(0, 1 << (np.iinfo(kind).bits - 2), 3, 5, kind=kind)
        for attrs in ({}, {"positive": 0}, {"seed": 42}):
            check(Call("MurmurHash3", [x], attrs))


def test_complex_numbers_and_the_rest() -> None:
    m = Maker()
    a, b = m.f(3, 4, 2), m.f(3, 4, 2)
    left, right = (x[..., 0].astype(np.complex128) + 1j * x[..., 1] for x in (a, b))

    def pair(z: Array) -> Array:
        return np.stack([z.real, z.imag], -1)

    _against(Call("ComplexMul", [a, b]), pair(left * right))
    _against(Call("ComplexMulConj", [a, b]), pair(left * right.conj()))
    x = m.f(3, 8)
    _against(Call("Rfft", [x]), pair(np.fft.rfft(x)))
    bad = np.array([1, np.nan], np.float32)
    _against(Call("IsAllFinite", [x, bad]), np.array(False))
    _against(Call("IsAllFinite", [x, bad], {"isinf_only": 1}), np.array(True))
    _against(Call("IsAllFinite", [x]), np.array(True))


@pytest.mark.slow
@pytest.mark.parametrize("both", [0, 1])
def test_relative_position_bias_is_that_of_t5(both: int) -> None:
    transformers = pytest.importorskip("transformers.models.t5.modeling_t5")
    torch = pytest.importorskip("torch")
    m = Maker()
    table = m.f(8, 3)
    away = torch.arange(20)[None] - torch.arange(20)[:, None]
    bucket = transformers.T5Attention._relative_position_bucket(away, bool(both), 8, 16)
    want = np.transpose(table[bucket.numpy()], (2, 0, 1))[None]
    stored = np.ascontiguousarray(table.T).reshape(table.shape)
    inputs = [stored, np.array(20, np.int64), np.array(20, np.int64)]
    attrs = {"max_distance": 16, "is_bidirectional": both}
    _against(Call("RelativePositionBias", inputs, attrs, constants=(1, 2)), want)
