"""Weights of recurrent layers in the layout of native/rnn.hpp.

Gates are numbered as there: LSTM i, f, g, o; GRU z, r, h; the plain RNN has one.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["rnn", "lstm", "gru"]
Source = Literal["onnx", "torch"]
F32 = npt.NDArray[np.float32]

GATES: dict[Kind, int] = {"rnn": 1, "lstm": 4, "gru": 3}
# Where the gates 0, 1, 2... of native/rnn.hpp stand in the source's order.
# ONNX: i, o, f, c and z, r, h (operators LSTM and GRU); torch: i, f, g, o and r, z, n.
_ORDER: dict[tuple[Kind, Source], tuple[int, ...]] = {
    ("rnn", "onnx"): (0,),
    ("rnn", "torch"): (0,),
    ("lstm", "onnx"): (0, 2, 3, 1),
    ("lstm", "torch"): (0, 1, 2, 3),
    ("gru", "onnx"): (0, 1, 2),
    ("gru", "torch"): (1, 0, 2),
}


def reorder_gates(array: F32, kind: Kind, source: Source) -> F32:
    """Bring the first axis, [gates * hidden, ...], from the source's gate order into ours."""
    gates = GATES[kind]
    if array.shape[0] % gates:
        raise ValueError(f"a {kind}'s first axis must be {gates} gates, got {array.shape}")
    split = array.reshape(gates, array.shape[0] // gates, *array.shape[1:])
    return np.ascontiguousarray(split[list(_ORDER[kind, source])].reshape(array.shape))


def reorder_peepholes(array: F32) -> F32:
    """ONNX's P, [3 * hidden] in the order i, o, f, as [3, hidden] in the order i, f, o."""
    return np.ascontiguousarray(array.reshape(3, -1)[[0, 2, 1]])


def merge_biases(
    kind: Kind, w_bias: F32, r_bias: F32, linear_before_reset: bool
) -> tuple[F32, F32 | None]:
    """Split biases, both [gates * hidden] in our order, into what the inputs' product takes
    and, for a GRU with linear_before_reset, the recurrent bias of h, [hidden], that r scales."""
    total = w_bias + r_bias
    if kind != "gru" or not linear_before_reset:
        return total, None
    hidden = w_bias.size // 3
    total[2 * hidden :] = w_bias[2 * hidden :]
    return total, np.ascontiguousarray(r_bias[2 * hidden :])


def _pack_gates(r: F32, lanes: int) -> F32:
    """[gates, hidden, hidden] (gate, unit, input) to [blocks, input, gate, lane]."""
    gates, hidden, inputs = r.shape
    blocks = -(-hidden // lanes)
    padded = np.zeros((gates, blocks * lanes, inputs), dtype=np.float32)
    padded[:, :hidden] = r
    tiles = padded.reshape(gates, blocks, lanes, inputs)
    return np.ascontiguousarray(tiles.transpose(1, 3, 0, 2))


def pack_recurrent(r: F32, kind: Kind, lanes: int, linear_before_reset: bool = False) -> F32:
    """Pack recurrent weights for `lanes` floats a vector.

    Args:
        r: [gates * hidden, hidden], gates in our order, so that a step's product is h @ r.T.
        kind: the layer.
        lanes: VL of the target, CUVIL_VEC_BYTES / 4.
        linear_before_reset: of a GRU; without it z, r and h are packed as two parts, since the
            second product can only start when the reset gate is known.

    Returns: a flat vector. Raises ValueError when the shape is not that of the layer.
    """
    parts = recurrent_parts(r, kind, lanes, linear_before_reset)
    return np.concatenate([part.reshape(-1) for part in parts])


def recurrent_parts(r: F32, kind: Kind, lanes: int, linear_before_reset: bool) -> list[F32]:
    """What pack_recurrent puts one after the other: [blocks, hidden, gates, lanes] each."""
    gates = GATES[kind]
    hidden = r.shape[1]
    if r.shape[0] != gates * hidden:
        raise ValueError(f"recurrent weights of a {kind} are [{gates} * hidden, hidden]: {r.shape}")
    split = np.asarray(r, dtype=np.float32).reshape(gates, hidden, hidden)
    if kind == "gru" and not linear_before_reset:
        return [_pack_gates(split[:2], lanes), _pack_gates(split[2:], lanes)]
    return [_pack_gates(split, lanes)]
