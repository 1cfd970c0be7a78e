"""Attention of com.microsoft against onnxruntime: masks of every shape, caches, rotation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from tests.codegen.compile_graph import build, outputs_of
from tests.frontends.ms_models import Call, Maker, check, compare

B, S, N, D = 2, 5, 3, 4
H = N * D


def _ops(module: Module) -> set[str]:
    return {op.short for op in module.main.body.ops}


def _masks(m: Maker, keys: int) -> Iterator[Any]:
    ends = np.array([3, keys], np.int32)
    yield from (None, ends, np.array([keys, 4, 1, 0], np.int32), m.mask(B, keys))
    yield m.mask(B, S, keys)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention(causal: int) -> None:
    m = Maker()
    x, w, b = m.f(B, S, 7), m.f(7, 3 * H), m.f(3 * H)
    base: dict[str, Any] = {"num_heads": N, "unidirectional": causal}
    for mask in _masks(m, S):
        check(Call("Attention", [x, w, b, mask], base), 5e-4)
    for past in (3, 0):
        for mask in (None, m.mask(B, S + past), m.mask(B, S, S + past)):
            cache = m.f(2, B, N, past, D)
            check(Call("Attention", [x, w, b, mask, cache], base, ("y", "p")), 5e-4)
    for lead in ((B, N), (1, N), (B, 1), (1, 1)):
        check(Call("Attention", [x, w, b, None, None, m.f(*lead, S, S)], base))
    check(Call("Attention", [x, w, None], {**base, "scale": 0.3}))
    check(Call("Attention", [x, w, b, m.mask(B, S)], {**base, "mask_filter_value": -5.0}))
    uneven = {**base, "qkv_hidden_sizes": [H, H, 6]}
    check(Call("Attention", [x, m.f(7, 2 * H + 6), m.f(2 * H + 6)], uneven))


def test_attention_is_one_operator_of_ours() -> None:
    m = Maker()
    call = Call("Attention", [m.f(B, S, 7), m.f(7, 3 * H), m.f(3 * H), m.mask(B, S)],
                {"num_heads": N}, constants=(1, 2))  # fmt: skip
    assert "attention" in _ops(capture_onnx(call.model()))


def test_what_attention_refuses() -> None:
    m = Maker()
    x, w, b = m.f(B, S, 7), m.f(7, 3 * H), m.f(3 * H)
    packed = np.arange(3 * B + 2).astype(np.int32)
    for inputs, attrs, reason in (
        ([x, w, b, packed], {}, r"a mask of shape \[8\]"),
        ([x, w, b], {"do_rotary": 1}, "rotary embedding inside"),
        ([x, w, b], {"past_present_share_buffer": 1}, "in one buffer"),
    ):
        with pytest.raises(UnsupportedOpError, match=reason):
            Call("Attention", inputs, {"num_heads": N, **attrs}).ours()


def test_multi_head_attention() -> None:
    m = Maker()
    keys = S + 2
    q, k, v = m.f(B, S, H), m.f(B, keys, H), m.f(B, keys, H)
    base: dict[str, Any] = {"num_heads": N}
    wide = m.f(3 * H)
    for inputs in (
        [q, k, v], [q, k, v, wide], [q, k, m.f(B, keys, 6), m.f(2 * H + 6)],
        [q, m.f(B, N, keys, D), m.f(B, N, keys, D)],
        [q, m.f(B, N, keys, D), m.f(B, N, keys, D), wide],
    ):  # fmt: skip
        check(Call("MultiHeadAttention", inputs, base))
    for mask in (None, np.array([3, 6], np.int32), m.mask(B, keys), m.mask(B, S, keys)):
        check(Call("MultiHeadAttention", [q, k, v, wide, mask], base), 5e-4)
    for lead in ((B, N), (1, N), (B, 1), (1, 1)):
        inputs = [q, k, v, None, None, m.f(*lead, S, keys)]
        check(Call("MultiHeadAttention", inputs, {**base, "scale": 0.2}))
    inputs = [q, k, v, None, m.mask(B, keys)]
    check(Call("MultiHeadAttention", inputs, base, ("y", "", "", "qk")), 5e-4)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [0, 3])
def test_multi_head_attention_with_a_cache(causal: int, past: int) -> None:
    m = Maker()
    q, k, v, cache = m.f(B, S, H), m.f(B, S, H), m.f(B, S, H), m.f(2, B, N, past, D)
    base = {"num_heads": N, "unidirectional": causal}
    outputs = ("y", "k", "v")
    inputs = [q, k, v, m.f(3 * H), None, None, cache[0], cache[1]]
    check(Call("MultiHeadAttention", inputs, base, outputs))
    bias = m.f(B, N, S, S + past)
    inputs = [q, k, v, None, m.mask(B, S + past), bias, cache[0], cache[1]]
    check(Call("MultiHeadAttention", inputs, base, outputs), 5e-4)


def test_packed_operands_are_the_plain_ones() -> None:
    """onnxruntime has these forms on GPUs only: they must equal the form that it has here."""
    m = Maker()
    q, k, v = m.f(B, S, N, D), m.f(B, S, N, D), m.f(B, S, N, D)
    flat = [x.reshape(B, S, H) for x in (q, k, v)]
    base = {"num_heads": N}
    (want,) = Call("MultiHeadAttention", flat, base).ours()
    (qkv,) = Call("MultiHeadAttention", [np.stack([q, k, v], 3)], base).ours()
    (kv,) = Call("MultiHeadAttention", [flat[0], np.stack([k, v], 3)], base).ours()
    np.testing.assert_array_equal(qkv, want)
    np.testing.assert_array_equal(kv, want)
    cache = m.f(2, B, N, 3, D)
    last = [x[:, :1] for x in flat]
    inputs = [*last, None, None, None, cache[0], cache[1]]
    (want,) = Call("MultiHeadAttention", inputs, base).ours()
    inputs = [*last, None, None, cache[0], cache[1]]
    (got,) = Call("DecoderMaskedMultiHeadAttention", inputs, base).ours()
    np.testing.assert_array_equal(got, want)


def test_a_causal_mask_over_other_keys_is_refused() -> None:
    m = Maker()
    inputs = [m.f(B, S, H), m.f(B, S + 1, H), m.f(B, S + 1, H)]
    with pytest.raises(UnsupportedOpError, match="keys of another sequence"):
        Call("MultiHeadAttention", inputs, {"num_heads": N, "unidirectional": 1}).ours()


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    m = Maker()
    cos, sin = m.f(16, 4), m.f(16, 4)
    places = m.ints(0, 16, B, S, kind=np.int64)
    base: dict[str, Any] = {"interleaved": interleaved}
    part = {**base, "num_heads": 3, "rotary_embedding_dim": 8}
    one = np.array([3], np.int64)
    check(Call("RotaryEmbedding", [m.f(B, S, 24), places, cos, sin], base))
    check(Call("RotaryEmbedding", [m.f(B, 3, S, 8), places, cos, sin], base))
    check(Call("RotaryEmbedding", [m.f(B, S, 24), one, cos, sin], base))
    check(Call("RotaryEmbedding", [m.f(B, S, 36), places, cos, sin], part))
    check(Call("RotaryEmbedding", [m.f(B, 3, S, 12), places, cos, sin], part))


K, W = 2, 16  # heads of keys, size of a head
GQA: dict[str, Any] = {"num_heads": 4, "kv_num_heads": K}
OUT = ("y", "k", "v")


def _step(m: Maker, batch: int, rows: int, past: int, last: Any, total: int) -> list[Any]:
    """Inputs 0 to 6: queries, keys, values, caches, lengths."""
    new = [m.f(batch, rows, 4 * W), m.f(batch, rows, K * W), m.f(batch, rows, K * W)]
    caches = [m.f(batch, K, past, W), m.f(batch, K, past, W)]
    return [*new, *caches, np.array(last, np.int32), np.array([total], np.int32)]


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("window", [-1, 2])
def test_group_query_attention_by_lengths(rotary: int, window: int) -> None:
    """Prompts and steps, rows of different lengths, caches that are longer than what they hold.

    Only what the rows' lengths cover is defined.
    """
    m = Maker()
    turn = [m.f(32, W // 2), m.f(32, W // 2)] if rotary else []
    attrs = {**GQA, "do_rotary": rotary, "local_window_size": window}
    for rows, past, last, total in (
        (5, 0, (4, 4), 5), (5, 0, (4, 2), 5), (1, 6, (6, 6), 7), (1, 6, (6, 4), 7),
        (1, 8, (5, 3), 6), (3, 8, (6,), 7),
    ):  # fmt: skip
        inputs = [*_step(m, len(last), rows, past, last, total), *turn]
        call = Call("GroupQueryAttention", inputs, attrs, OUT, (6,))
        got, want = call.ours(), call.theirs([np.float32] * 3)
        assert [a.shape for a in got] == [b.shape for b in want]
        for row, end in enumerate(last):
            known = min(rows, end + 1)
            np.testing.assert_allclose(got[0][row, :known], want[0][row, :known], 2e-5, 2e-5)
            for a, b in zip(got[1:], want[1:], strict=True):
                np.testing.assert_allclose(a[row, :, : end + 1], b[row, :, : end + 1], 1e-5, 1e-5)


def test_group_query_attention_by_attributes() -> None:
    m = Maker()
    cos, sin = m.f(32, W // 2), m.f(32, W // 2)

    def run(inputs: list[Any], outputs: Any = OUT, **attrs: Any) -> None:
        check(Call("GroupQueryAttention", inputs, {**GQA, **attrs}, outputs, (6,)))

    step = _step(m, 2, 1, 6, (6, 6), 7)
    for attrs in ({"softcap": 2.0}, {"scale": 0.2}, {"smooth_softmax": 1}):
        run(step, **attrs)
    run([*step, cos, sin], do_rotary=1, rotary_interleaved=1)
    run([*step, cos, sin, np.array([[3], [4]], np.int64)], do_rotary=1)
    run([np.concatenate(step[:3], 2), None, None, *step[3:]])
    for lead in ((2, 4), (1, 1)):
        run([*step, None, None, None, m.f(*lead, 1, 7)])
    run([*step, None, None, None, None, m.f(4)])
    prompt = _step(m, 2, 5, 0, (4, 4), 5)
    run([*prompt[:3], None, None, *prompt[5:]])
    run(prompt, causal=0)
    run(prompt, (*OUT, "qk"), qk_output=2)


def test_what_group_query_attention_refuses() -> None:
    m = Maker()
    step = _step(m, 2, 1, 6, (6, 6), 7)
    for attrs, reason in (
        ({"k_quant_type": "PER_TENSOR"}, "a quantized cache"),
        ({"sliding_window_cache": 1, "local_window_size": 4}, "of the window's size"),
        ({"smooth_softmax": 1, "softcap": 1.0}, "a sink together with a softcap"),
    ):
        call = Call("GroupQueryAttention", step, {**GQA, **attrs}, OUT, (6,))
        with pytest.raises(UnsupportedOpError, match=reason):
            call.ours()


def test_group_query_attention_of_a_total_length_that_is_data() -> None:
    """Compiled: a cache that the step makes longer, one that has room, and none."""
    m = Maker()
    turn = [m.f(32, W // 2), m.f(32, W // 2)]
    named: dict[int, Any] = {0: ("B", "S", 4 * W), 1: ("B", "S", K * W), 2: ("B", "S", K * W)}
    cached = {**named, 3: ("B", K, "P", W), 4: ("B", K, "P", W), 5: ("B",)}
    attrs = {**GQA, "do_rotary": 1}
    cases = [_step(m, 2, 1, 6, (6, 6), 7), _step(m, 1, 1, 8, (4,), 5), _step(m, 1, 3, 4, (6,), 7)]
    calls = [Call("GroupQueryAttention", [*c, *turn], attrs, OUT, (), cached) for c in cases]
    first = _step(m, 2, 5, 0, (4, 4), 5)
    first = [*first[:3], None, None, *first[5:], *turn]
    plain = Call("GroupQueryAttention", first, attrs, OUT, (), {**named, 5: ("B",)})
    for group in (calls, [plain]):
        module = capture_onnx(group[0].model())
        with build(module) as artifact:
            for call in group:
                want = call.theirs([np.float32] * 3)
                for got in (
                    run_module(module, call.feeds()),
                    outputs_of(artifact, module, call.feeds()),
                ):
                    ends = call.inputs[5]
                    assert ends is not None
                    compare(got[:1], want[:1], 2e-5)
                    for a, b in zip(got[1:], want[1:], strict=True):
                        assert a.shape == b.shape
                        for row, end in enumerate(ends + 1):
                            np.testing.assert_array_less(abs(a - b)[row, :, :end], 2e-5)


def test_a_head_norm_comes_before_the_rotation() -> None:
    """onnxruntime has it on GPUs only: it must equal the norm written before the operator."""
    m = Maker()
    step = _step(m, 2, 1, 6, (6, 6), 7)
    turn = [m.f(32, W // 2), m.f(32, W // 2)]
    weights = [m.f(W), m.f(W)]
    attrs = {**GQA, "do_rotary": 1}
    inputs = [*step, *turn, None, None, None, None, None, *weights]
    got = Call("GroupQueryAttention", inputs, attrs, OUT, (6,)).ours()

    def norm(x: Any, weight: Any) -> Any:
        heads = x.reshape(*x.shape[:2], -1, W).astype(np.float64)
        rms = np.sqrt((heads * heads).mean(-1, keepdims=True) + 1e-6)
        return (heads / rms * weight).reshape(x.shape).astype(np.float32)

    plain = [norm(step[0], weights[0]), norm(step[1], weights[1]), *step[2:]]
    call = Call("GroupQueryAttention", [*plain, *turn], attrs, OUT, (6,))
    for a, b in zip(got, call.theirs([np.float32] * 3), strict=True):
        np.testing.assert_allclose(a, b, 2e-5, 2e-5)
