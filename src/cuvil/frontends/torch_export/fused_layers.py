"""Torch's fused transformer layers, which it takes where no gradient is wanted, as their parts.

Rules as torch has them for its own decompositions: functions over tensors of the operators'
arguments. (aten/src/ATen/native/transformers: attention.cpp, transformer.cpp)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_ROWS, _KEYS = 0, 1  # mask types: [queries, keys], [batch, keys]; else [batch, heads, ...]


def _encoder_layer(
    src: Tensor, width: int, heads: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor,
    ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor, ffn_bias_2: Tensor,
    mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:  # fmt: skip
    def first(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), norm_weight_1, norm_bias_1, eps)

    def second(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), norm_weight_2, norm_bias_2, eps)

    def feed(x: Tensor) -> Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    def attend(x: Tensor) -> Tensor:
        return _attention(
            x, x, x, width, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            False, True, mask_type,
        )[0]  # fmt: skip

    if norm_first:
        x = src + attend(first(src))
        return x + feed(second(x))
    x = first(src + attend(src))
    return second(x + feed(x))


def _attention(
    query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None,
    need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    q, k, v = (
        functional.linear(x, w, b).unflatten(-1, (heads, width // heads)).transpose(1, 2)
        for x, w, b in zip((query, key, value), weights, biases, strict=True)
    )
    scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1)
    shares = _shares(scores, mask, mask_type)
    found = (shares @ v).transpose(1, 2).flatten(2)
    found = functional.linear(found, proj_weight, proj_bias)
    if not need_weights:
        return found, query.new_empty((0,))
    return found, shares.mean(1) if average_attn_weights else shares


def _shares(scores: Tensor, mask: Tensor | None, mask_type: int | None) -> Tensor:
    """softmax over the keys that a mask leaves: those where it is zero. Of no key, NaN."""
    if mask is None:
        return scores.softmax(-1)
    left_out = mask.to(torch.bool)
    if mask_type == _KEYS:
        left_out = left_out[:, None, None, :]
    elif mask_type == _ROWS and left_out.dim() == 2:
        left_out = left_out[None, None]
    return scores.masked_fill(left_out, float("-inf")).softmax(-1)


FUSED: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    torch.ops.aten._native_multi_head_attention.default: _attention,
}
