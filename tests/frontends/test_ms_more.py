"""com.microsoft's inverses, crops, rotations and stateful convolutions, and its refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuvil.errors import UnsupportedOpError
from tests.frontends.ms_models import Call, Maker, check, compare

F32 = np.float32


def test_inverse() -> None:
    m = Maker()
    check(Call("Inverse", [m.f(2, 5, 5)]), 1e-3)
    check(Call("Inverse", [m.f(4, 4).astype(np.float64)]), 1e-9)
    check(Call("Inverse", [np.array([[0, 1], [1, 0]], F32)]))


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_crop_and_resize(mode: str) -> None:
    m = Maker()
    boxes, images = m.scales(4, 4, low=-0.1, high=1.1), np.array([0, 1, 1, 0], np.int32)
    for size in ((3, 5), (1, 4), (4, 1)):
        inputs = [m.f(2, 3, 7, 9), boxes, images, np.array(size, np.int32)]
        attrs = {"mode": mode, "extrapolation_value": 0.5}
        check(Call("CropAndResize", inputs, attrs, constants=(3,)), 1e-4)


@pytest.mark.parametrize("dilation", [1, 2])
def test_causal_convolution(dilation: int) -> None:
    m = Maker()
    held, outputs = 3 * dilation, ("y", "state")
    base: dict[str, Any] = {"dilation": dilation}
    x, w, bias = m.f(2, 5, 7), m.f(5, 1, 4), m.f(5)
    for name in ("none", "silu"):
        attrs = {**base, "activation": name}
        check(Call("CausalConvWithState", [x, w, bias, m.f(2, 5, held)], attrs, outputs))
        check(Call("CausalConvWithState", [x, w], attrs, outputs))
    inputs = [m.f(2, 7, 5), w, bias, m.f(2, held, 5)]
    check(Call("CausalConvWithState", inputs, {**base, "channels_last": 1}, outputs))


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_multimodal_rotary(layout: int, interleaved: int) -> None:
    m = Maker()
    caches, places = [m.f(16, 6), m.f(16, 6)], m.ints(0, 16, 3, 2, 5, kind=np.int64)
    base: dict[str, Any] = {"mrope_layout": layout, "interleaved": interleaved}
    inputs = [m.f(2, 2, 5, 12), places, *caches]
    check(Call("MRotaryEmbedding", inputs, {**base, "mrope_section": [2, 2, 2]}))
    inputs = [m.f(2, 5, 24), places, *caches]
    attrs = {**base, "mrope_section": [2, 3, 1], "num_heads": 2}
    if not layout:
        check(Call("MRotaryEmbedding", inputs, attrs))
    attrs = {**base, "mrope_section": [2, 2, 2], "num_heads": 2, "rotary_embedding_dim": 12}
    check(Call("MRotaryEmbedding", [m.f(2, 2, 5, 16), places, *caches], attrs))


def test_unique() -> None:
    x = np.array([2, 1, 1, 3, 4, 3], F32)
    check(Call("Unique", [x], outputs=("y", "index", "counts"), constants=(0,)))
    for constants in ((), (0,)):
        call = Call("Unique", [np.array([3, 1, 3], F32)], {}, ("y", "at", "counts"), constants)
        want = [np.array([3, 1], F32), np.array([0, 1, 0]), np.array([2, 1])]
        compare(call.ours(), want, 0)
    check(Call("Unique", [x], outputs=("y", "index", "counts")))


def test_rotations_and_gates_of_gpus() -> None:
    m = Maker()
    angles = m.f(2, 5, 8)
    q, q_rot, k, k_rot = (m.f(2, 3, 5, 8).astype(np.float16) for _ in range(4))
    got = Call("GemmaRotaryEmbedding", [angles, q, q_rot, k, k_rot], outputs=("a", "b")).ours()
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    want = [(x * cos + y * sin).astype(np.float16) for x, y in ((q, q_rot), (k, k_rot))]
    compare(got, want, 5e-3)
    heads, size, width = 3, 4, 8
    query, bias, position = m.f(2, 5, 12), m.f(12), m.f(1, heads, 5, 5)
    weight, shift, eco = m.f(size, width), m.f(width), m.f(1, heads, 1, 1)
    call = Call("GatedRelativePositionBias", [query, bias, position, weight, shift, eco],
                {"num_heads": heads})  # fmt: skip
    split = (query + bias).reshape(2, 5, heads, size).transpose(0, 2, 1, 3)
    sums = (split @ weight + shift).reshape(2, heads, 5, 2, width // 2).sum(-1)
    update, reset = np.split(1 / (1 + np.exp(-sums)), 2, axis=-1)
    compare(call.ours(), [(update * (reset * eco - 1) + 2) * position], 1e-4)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("BeamSearch", "it searches for a sequence"),
        ("PackedAttention", "packed .ragged. batches"),
        ("MoE", "routes tokens between experts"),
        ("QOrderedMatMul", "made for one kind of accelerator"),
        ("Irfft", "how it is scaled is not specified"),
        ("NoSuchOperator", "there is no translation for it"),
    ],
)
def test_reasons(op: str, reason: str) -> None:
    with pytest.raises(UnsupportedOpError, match=reason):
        Call(op, [np.zeros((2, 2), F32)]).ours()
