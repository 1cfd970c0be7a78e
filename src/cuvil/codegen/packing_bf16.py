"""Weights of bf16 in pairs, as native/tile_bf16.hpp reads them: two steps of the summed dimension
in a word, the earlier one in its lower half."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cuvil.codegen.packing import (
    Floats,
    pack_conv_transpose,
    pack_conv_weights,
    pack_depthwise,
    pack_gemm_b,
    pack_winograd,
)
from cuvil.ir.types import BF16

Words = NDArray[np.uint32]


def pair_words(panels: NDArray[np.float32]) -> Words:
    """[..., K, nr] of values that bf16 holds exactly, K even, to [..., K / 2, nr]."""
    if panels.shape[-2] % 2:
        raise ValueError(f"an odd number of steps has no pairs: panels {panels.shape}")
    bits = panels.view(np.uint32)
    words: Words = bits[..., 0::2, :] >> np.uint32(16) | bits[..., 1::2, :] & np.uint32(0xFFFF0000)
    return words


def _need_bf16(w: NDArray[np.generic]) -> None:
    if w.dtype.name != "bfloat16":
        raise ValueError(f"expected weights of bf16, got {w.dtype}")


def pack_gemm_bf16(w: NDArray[np.generic], nr: int) -> Words:
    """[K, N], K even, to panels [ceil(N / nr), K / 2, nr]; columns past N are zero."""
    _need_bf16(w)
    return pair_words(pack_gemm_b(w, nr))


def pack_conv_bf16(w: NDArray[np.generic], groups: int, nr: int) -> Words:
    """[O, C / groups, *kernel], C / groups even, to [groups, ceil(O / groups / nr), K / 2, nr], K
    over the kernel and then the channels of a group."""
    _need_bf16(w)
    if w.shape[1] % 2:
        raise ValueError(f"an odd number of channels has no pairs: weights {w.shape}")
    return pair_words(pack_conv_weights(w, groups, nr))


def pack_conv_transpose_bf16(
    w: NDArray[np.generic],
    groups: int,
    nr: int,
    strides: Sequence[int],
    dilations: Sequence[int] = (1, 1),
) -> Words:
    """[C, O / groups, KH, KW], C / groups even, as pack_conv_transpose has it, in pairs of rows."""
    _need_bf16(w)
    if w.shape[0] // groups % 2:
        raise ValueError(f"an odd number of channels has no pairs: weights {w.shape}")
    rows = pack_conv_transpose(w, groups, nr, strides, dilations).reshape(-1, nr)
    return pair_words(rows).reshape(-1)


def pack_winograd_bf16(w: NDArray[np.generic], m: int, nr: int) -> Words:
    """[O, C, 3, 3] of f32, transformed as by pack_winograd and rounded to pairs of channels:
    [ceil(O / nr), (m + 2)^2, ceil(C / 2), nr]."""
    if w.shape[1] % 2:
        w = np.concatenate([w, np.zeros_like(w[:, :1])], 1)
    return pair_words(pack_winograd(w, m, nr).astype(BF16.numpy).astype(np.float32))


def pack_depthwise_bf16(w: NDArray[np.generic]) -> Floats:
    """f32 [C, 1, KH, KW], C even, to [KH, KW, 2, C / 2]: a tap's weights of the even channels, then
    those of the odd ones, as native/depthwise_bf16.hpp meets them in pairs of the input."""
    if w.shape[0] % 2:
        raise ValueError(f"an odd number of channels has no pairs: weights {w.shape}")
    taps = pack_depthwise(w)[0]
    pairs = taps.reshape((*taps.shape[:2], -1, 2))
    return np.ascontiguousarray(pairs.swapaxes(-1, -2))
