"""Weights of bf16 in pairs, as native/tile_bf16.hpp reads them: two steps of the summed dimension
in a word, the earlier one in its lower half."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cuvil.codegen.packing import Floats, pack_conv_weights, pack_depthwise, pack_gemm_b

Words = NDArray[np.uint32]


def _pairs(panels: NDArray[np.float32]) -> Words:
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
    return _pairs(pack_gemm_b(w, nr))


def pack_conv_bf16(w: NDArray[np.generic], groups: int, nr: int) -> Words:
    """[O, C / groups, *kernel], C / groups even, to [groups, ceil(O / groups / nr), K / 2, nr], K
    over the kernel and then the channels of a group."""
    _need_bf16(w)
    if w.shape[1] % 2:
        raise ValueError(f"an odd number of channels has no pairs: weights {w.shape}")
    return _pairs(pack_conv_weights(w, groups, nr))


def pack_depthwise_bf16(w: NDArray[np.generic]) -> Floats:
    """f32 [C, 1, KH, KW], C even, to [KH, KW, 2, C / 2]: a tap's weights of the even channels, then
    those of the odd ones, as native/depthwise_bf16.hpp meets them in pairs of the input."""
    if w.shape[0] % 2:
        raise ValueError(f"an odd number of channels has no pairs: weights {w.shape}")
    taps = pack_depthwise(w)[0]
    pairs = taps.reshape((*taps.shape[:2], -1, 2))
    return np.ascontiguousarray(pairs.swapaxes(-1, -2))
