"""Weights in the layouts that the native contraction kernels read (see native/*.hpp).

`nr` is the width of the target's register tile. All functions take and return f32 arrays (other
dtypes are converted), allocate their result, and raise ValueError on shapes that don't fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def pack_gemm_b(w: NDArray[np.generic], nr: int) -> Floats:
    """[K, N] -> panels [ceil(N / nr), K, nr]; columns past N are zero."""
    if w.ndim != 2:
        raise ValueError(f"expected a matrix [K, N], got shape {w.shape}")
    k, n = w.shape
    panels = -(-n // nr)
    full = n // nr
    packed = np.empty((panels, k, nr), np.float32)
    packed[:full] = w[:, : full * nr].reshape(k, full, nr).transpose(1, 0, 2)
    if full < panels:
        packed[full, :, : n - full * nr] = w[:, full * nr :]
        packed[full, :, n - full * nr :] = 0
    return packed


def pack_gemm_i8(w: NDArray[np.int8], nr: int, offset: int) -> NDArray[np.int32]:
    """i8 [K, N] -> i32 panels [ceil(N / nr), 1 + ceil(K / 4), nr], as gemm_i8.hpp says.

    ``offset`` is what the sums of columns are multiplied by to start from: -128 where the other
    operand is i8 and the machine multiplies by u8, 128 the other way round, else 0. What is past
    K or N is 0.
    """
    if w.ndim != 2 or w.dtype != np.int8:
        raise ValueError(f"expected an i8 matrix [K, N], got {w.dtype} {w.shape}")
    k, n = w.shape
    panels, depth = -(-n // nr), -(-k // 4)
    padded = np.zeros((4 * depth, panels * nr), np.int8)
    padded[:k, :n] = w
    packed = np.empty((panels, 1 + depth, nr), np.int32)
    start = offset * padded.sum(axis=0, dtype=np.int64)
    packed[:, 0] = start.astype(np.int32).reshape(panels, nr)
    words = padded.reshape(depth, 4, panels, nr).transpose(2, 0, 3, 1)
    packed[:, 1:] = np.ascontiguousarray(words).view("<i4")[..., 0]
    return packed


def pack_block_rows(values: NDArray[np.generic], nr: int) -> NDArray[np.generic]:
    """[N, blocks, ...] -> [ceil(N / nr), blocks, ..., nr], as gemm_blocks.hpp has codes, scales and
    zero points; rows past N are zero."""
    n = values.shape[0]
    panels = -(-n // nr)
    padded = np.zeros((panels * nr, *values.shape[1:]), values.dtype)
    padded[:n] = values
    split = padded.reshape(panels, nr, *values.shape[1:])
    return np.ascontiguousarray(np.moveaxis(split, 1, -1))


def _group_panels(k_major: NDArray[np.generic], nr: int) -> Floats:
    """[groups, K, O] -> [groups, ceil(O / nr), K, nr]; columns past O are zero."""
    groups, k, outputs = k_major.shape
    packed = np.empty((groups, -(-outputs // nr), k, nr), np.float32)
    for entry, matrix in zip(packed, k_major, strict=True):
        entry[:] = pack_gemm_b(matrix, nr)
    return packed


def _with_depth(w: NDArray[np.generic]) -> NDArray[np.generic]:
    """Weights [O, I, *kernel] of one to three kernel dimensions as [O, I, KD, KH, KW]."""
    if not 3 <= w.ndim <= 5:
        raise ValueError(f"expected weights [O, I, *kernel] of rank 3 to 5, got shape {w.shape}")
    return w.reshape(*w.shape[:2], *(1,) * (5 - w.ndim), *w.shape[2:])


def pack_conv_weights(w: NDArray[np.generic], groups: int, nr: int) -> Floats:
    """[O, C/groups, KD, KH, KW] -> [groups, ceil(O/groups / nr), KD*KH*KW*C/groups, nr].

    The inner dimension runs over (kd, kh, kw, channel), as conv.hpp reads inputs with the channels
    last. Weights of rank 4 and 3 are the cases KD == 1 and KD == KH == 1.
    """
    w = _with_depth(w)
    outputs, channels, *kernel = w.shape
    if groups < 1 or outputs % groups:
        raise ValueError(f"{outputs} output channels don't divide into {groups} groups")
    each = outputs // groups
    grouped = w.reshape(groups, each, channels, *kernel)
    inner = math.prod(kernel) * channels
    k_major = grouped.transpose(0, 3, 4, 5, 2, 1).reshape(groups, inner, each)
    return _group_panels(k_major, nr)


WINOGRAD_POINTS = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.6875, -0.6875, 1.5, -1.5)}
"""Where native/winograd.hpp evaluates polynomials for m outputs, besides infinity."""


def winograd_filter(m: int) -> NDArray[np.float64]:
    """The matrix [m + 2, 3] that takes a filter's taps to its values at the points, each divided
    by the product of its distances to the others (Toom-Cook; Lavin and Gray 2016, G)."""
    points = np.array(WINOGRAD_POINTS[m])
    apart = points[:, None] - points
    np.fill_diagonal(apart, 1.0)
    rows = points[:, None] ** np.arange(3) / apart.prod(axis=1)[:, None]
    return np.concatenate([rows, [[0.0, 0.0, 1.0]]])


def pack_winograd(w: NDArray[np.generic], m: int, nr: int) -> Floats:
    """[O, C, 3, 3] -> [ceil(O / nr), (m + 2)^2, C, nr], transformed in f64, rounded once."""
    if w.ndim != 4 or w.shape[2:] != (3, 3):
        raise ValueError(f"expected weights [O, C, 3, 3], got shape {w.shape}")
    outputs, channels = w.shape[:2]
    matrix = winograd_filter(m)
    panels, points = -(-outputs // nr), (m + 2) ** 2
    packed = np.zeros((panels, points, channels, nr), np.float32)
    for panel in range(panels):
        part = w[panel * nr : (panel + 1) * nr].astype(np.float64)
        values = np.einsum("pi,qj,ocij->pqco", matrix, matrix, part, optimize=True)
        packed[panel, :, :, : len(part)] = values.reshape(points, channels, len(part))
    return packed


def pack_depthwise(w: NDArray[np.generic]) -> Floats:
    """[C, 1, KD, KH, KW] (or rank 4 or 3) -> [KD, KH, KW, C], one multiplier a channel."""
    w = _with_depth(w)
    if w.shape[1] != 1:
        raise ValueError(f"expected depthwise weights [C, 1, *kernel], got shape {w.shape}")
    return np.ascontiguousarray(w[:, 0].transpose(1, 2, 3, 0), np.float32)


def pack_conv_transpose(
    w_iohw: NDArray[np.generic],
    groups: int,
    nr: int,
    strides: Sequence[int],
    dilations: Sequence[int] = (1, 1),
) -> Floats:
    """[C, O/groups, KH, KW] -> flat, phase by phase, as conv_transpose.hpp says.

    Per group and phase (ry, rx), 0 <= ry < strides[0], 0 <= rx < strides[1], in that order: panels
    [ceil(O/groups / nr), taps of the phase * C/groups, nr], where a tap (i, j) belongs to the phase
    with i * dilations[0] % strides[0] == ry and j * dilations[1] % strides[1] == rx. Pads play no
    part.
    Weights [C, O/groups, K] with one stride and dilation are the case KH == 1.
    """
    if w_iohw.ndim == 3:
        w_iohw = w_iohw[:, :, None, :]
        strides, dilations = (1, strides[-1]), (1, dilations[-1])
    if w_iohw.ndim != 4:
        raise ValueError(f"expected weights [C, O/groups, KH, KW], got shape {w_iohw.shape}")
    channels, outputs, kh, kw = w_iohw.shape
    if groups < 1 or channels % groups:
        raise ValueError(f"{channels} input channels don't divide into {groups} groups")
    (sh, sw), (dh, dw) = strides, dilations
    per_group = channels // groups
    # [groups, KH, KW, C/groups, O/groups]
    w = w_iohw.reshape(groups, per_group, outputs, kh, kw).transpose(0, 3, 4, 1, 2)
    rows = [np.flatnonzero(np.arange(kh) * dh % sh == ry) for ry in range(sh)]
    columns = [np.flatnonzero(np.arange(kw) * dw % sw == rx) for rx in range(sw)]
    phases = [
        _group_panels(w[:, i][:, :, j].reshape(groups, len(i) * len(j) * per_group, outputs), nr)
        for i in rows
        for j in columns
    ]
    return np.concatenate([phase.reshape(groups, -1) for phase in phases], axis=1).reshape(-1)
