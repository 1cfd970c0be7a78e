"""Bytes of scratch memory that native kernels of contractions take: what their headers compute, as
expressions of the number of threads."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.codegen.kernel import THREADS
from cuvil.passes.algorithms import winograd_group, winograd_row
from cuvil.sym.expr import Dim, add, floordiv, minimum, mul, symbol
from cuvil.target.base import Target

SHORT_RUN = 16
"""Channels below which conv.hpp copies kernel rows (CONV_SHORT_RUN)."""
AMX_GROUP_BYTES = 512 << 10
"""Copied rows that a thread keeps (contract_amx.hpp)."""


def _scratch(row: int, pointers: int, copied: int = 0) -> Dim:
    """Bytes of a row of zeros of ``row`` floats and of each thread's pointers and copied floats."""

    def lines(size: int) -> int:
        return (size + 63) // 64 * 64

    per_thread = lines(8 * pointers) + lines(4 * copied)
    return add(lines(4 * row), mul(symbol(THREADS), per_thread))


def conv_scratch(taps: int, kw: int, channels: int, mr: int) -> Dim:
    """Native conv_scratch_bytes: ``channels`` are those of a group."""
    short = channels < SHORT_RUN
    copied = mr * taps * channels if short else 0
    return _scratch(kw * channels if short else channels, mr * taps, copied)


def depthwise_scratch(taps: int, channels: int, pairs: bool = False) -> Dim:
    """Native depthwise_scratch_bytes, or depthwise_bf16_scratch_bytes of pairs of channels."""
    if pairs:
        return _scratch(channels, 0)
    return _scratch(channels, 7 * taps)


def conv_transpose_scratch(taps: int, channels: int, mr: int) -> Dim:
    """Native conv_transpose_scratch_bytes: ``channels`` are those of a group."""
    return _scratch(channels, mr * taps)


def winograd_scratch(m: int, steps: int, target: Target, group: int = 0) -> Dim:
    """Native winograd_scratch_bytes; ``steps`` are the words of a transformed pixel."""
    points, row = (m + 2) ** 2, winograd_row(steps)
    group = group or winograd_group(m, steps, target)
    per_thread = points * (group * row + 16) + points * (group * target.nr + 16)
    return add((steps + 15) // 16 * 64, mul(symbol(THREADS), 4 * per_thread))


def amx_scratch(pairs: int) -> Dim:
    """Native amx_scratch_bytes, for sums of that many pairs."""
    row = ((pairs + 15) // 16 | 1) * 64
    rows = max(32, AMX_GROUP_BYTES // row // 32 * 32)
    return mul(symbol(THREADS), rows * row)


def _pad(n: Dim, to: int) -> Dim:
    return mul(floordiv(add(n, to - 1), to), to)


def attention_scratch(sizes: Mapping[str, Dim], block: int, target: Target) -> Dim:
    """An upper bound of native attention_scratch_bytes, as an expression: ``sizes`` are those that
    AttentionArgs has, ``block`` the keys between two rescalings."""
    keys, values = sizes["kv_len"], sizes["v_dim"]
    packed_keys = _pad(mul(_pad(keys, target.nr), sizes["head_dim"]), 16)
    packed_values = _pad(mul(keys, _pad(values, target.nr)), 16)
    room = minimum(_pad(keys, target.nr), block * 3 // 2 + target.nr)
    rows = mul(add(add(room, _pad(values, target.nr)), target.nr + 2), target.mr)
    floats = add(add(packed_keys, packed_values), _pad(rows, 16))
    return mul(mul(symbol(THREADS), floats), 4)


def attention_unit_scratch(sizes: Mapping[str, Dim], block: int, target: Target) -> Dim:
    """An upper bound of threads times native attention_unit_bytes, likewise."""
    keys, dim, width = (_pad(sizes[name], 32) for name in ("kv_len", "head_dim", "v_dim"))
    room = minimum(keys, block * 3 // 2 + 32)
    packed = mul(mul(keys, add(dim, width)), 2)
    halves = add(mul(add(dim, room), 2), 2 * 64)  # up to a line more each
    floats = add(add(room, width), target.nr + 2)
    return mul(symbol(THREADS), add(packed, mul(add(halves, mul(floats, 4)), 32)))
