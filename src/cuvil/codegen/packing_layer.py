"""Packed parameters of whole recurrent layers (native/recurrent.hpp), by the names that kernels
give them: arrays in ONNX's layout and gate order, [directions, ...]."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from cuvil.codegen.packing import pack_gemm_b
from cuvil.codegen.packing_bf16 import pack_gemm_bf16, pair_words
from cuvil.codegen.packing_rnn import (
    GATES,
    Kind,
    merge_biases,
    pack_recurrent,
    recurrent_parts,
    reorder_gates,
    reorder_peepholes,
)

Array = np.ndarray[Any, Any]


def pack_w(array: Array, arguments: list[str]) -> Array:
    """``rnn_w:kind:nr``: [D, G * H, I] to the panels of [I, D * G * H]."""
    kind, nr = cast(Kind, arguments[0]), int(arguments[1])
    rows = [reorder_gates(w, kind, "onnx") for w in array]
    return pack_gemm_b(np.concatenate(rows).T, nr)


def pack_r(array: Array, arguments: list[str]) -> Array:
    """``rnn_r:kind:lanes:linear_before_reset``: [D, G * H, H], one direction after the other."""
    kind, lanes, linear = cast(Kind, arguments[0]), int(arguments[1]), arguments[2] == "1"
    return np.concatenate(
        [pack_recurrent(reorder_gates(r, kind, "onnx"), kind, lanes, linear) for r in array]
    )


def pack_w_bf16(array: Array, arguments: list[str]) -> Array:
    """``rnn_w_bf16:kind:nr``: :func:`pack_w` of bf16, I even, in pairs."""
    kind, nr = cast(Kind, arguments[0]), int(arguments[1])
    rows = [reorder_gates(w, kind, "onnx") for w in array]
    return pack_gemm_bf16(np.concatenate(rows).T, nr)


def pack_r_bf16(array: Array, arguments: list[str]) -> Array:
    """``rnn_r_bf16:kind:lanes:linear_before_reset``: :func:`pack_r` of bf16, in pairs of the units
    that are multiplied (native/rnn_bf16.hpp)."""
    kind, lanes, linear = cast(Kind, arguments[0]), int(arguments[1]), arguments[2] == "1"
    rows = (reorder_gates(r, kind, "onnx") for r in array.astype(np.float32))
    parts = [part for r in rows for part in recurrent_parts(r, kind, lanes, linear)]
    return np.concatenate([_in_pairs(part).reshape(-1) for part in parts])


def _in_pairs(part: Array) -> Array:
    """[blocks, units, gates, lanes] to [blocks, ceil(units / 2), gates * lanes] words."""
    blocks, units = part.shape[:2]
    rows = np.pad(part.reshape(blocks, units, -1), ((0, 0), (0, units % 2), (0, 0)))
    return pair_words(rows)


def _merged(array: Array, arguments: list[str]) -> list[tuple[Array, Array | None]]:
    kind, linear = cast(Kind, arguments[0]), arguments[1] == "1"
    pairs = []
    for row in array:
        w_bias, r_bias = np.split(row, 2)
        assert w_bias.size % GATES[kind] == 0
        w_bias, r_bias = (reorder_gates(b, kind, "onnx") for b in (w_bias, r_bias))
        pairs.append(merge_biases(kind, w_bias, r_bias, linear))
    return pairs


def pack_bias(array: Array, arguments: list[str]) -> Array:
    """``rnn_b:kind:linear_before_reset``: [D, 2 * G * H] to [D, G * H]."""
    return np.stack([total for total, _ in _merged(array, arguments)])


def pack_bias_h(array: Array, arguments: list[str]) -> Array:
    """``rnn_bh:gru:1``: [D, 6 * H] to the recurrent bias of the new state, [D, H]."""
    kept = [new for _, new in _merged(array, arguments) if new is not None]
    return np.stack(kept)


def pack_peepholes(array: Array, arguments: list[str]) -> Array:
    """``rnn_p``: [D, 3 * H] to [D, 3, H]."""
    return np.stack([reorder_peepholes(p) for p in array])
