"""The weights file: constants in the layout their kernels read, each once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.codegen import packing, packing_bf16, packing_layer
from cuvil.codegen.denormals import without_denormals
from cuvil.ir.core import Weight

ALIGNMENT = 64
Array = np.ndarray[Any, Any]


def _each_matrix(array: Array, pack: Callable[[Array], Array]) -> Array:
    if array.ndim == 2:
        return pack(array)
    count = int(np.prod(array.shape[:-2]))
    if count == 0:
        return np.zeros(0, array.dtype)
    return np.stack([pack(m) for m in array.reshape(count, *array.shape[-2:])])


def _gemm(array: Array, arguments: list[str]) -> Array:
    nr = int(arguments[0])
    return _each_matrix(array, lambda m: packing.pack_gemm_b(m, nr))


def _gemm_i8(array: Array, arguments: list[str]) -> Array:
    nr, offset = int(arguments[0]), int(arguments[1])
    return _each_matrix(array, lambda m: packing.pack_gemm_i8(m, nr, offset))


def _gemm_bf16(array: Array, arguments: list[str]) -> Array:
    nr = int(arguments[0])
    return _each_matrix(array, lambda m: packing_bf16.pack_gemm_bf16(m, nr))


def _conv_bf16(array: Array, arguments: list[str]) -> Array:
    return packing_bf16.pack_conv_bf16(array, int(arguments[0]), int(arguments[1]))


def _block_rows(array: Array, arguments: list[str]) -> Array:
    return packing.pack_block_rows(array, int(arguments[0]))


def _conv(array: Array, arguments: list[str]) -> Array:
    return packing.pack_conv_weights(array, int(arguments[0]), int(arguments[1]))


def _winograd(array: Array, arguments: list[str]) -> Array:
    return packing.pack_winograd(array, int(arguments[0]), int(arguments[1]))


def _winograd_bf16(array: Array, arguments: list[str]) -> Array:
    return packing_bf16.pack_winograd_bf16(array, int(arguments[0]), int(arguments[1]))


def _conv_transpose(array: Array, arguments: list[str]) -> Array:
    return packing.pack_conv_transpose(*_in_the_plane(array, arguments))


def _conv_transpose_bf16(array: Array, arguments: list[str]) -> Array:
    return packing_bf16.pack_conv_transpose_bf16(*_in_the_plane(array, arguments))


def _in_the_plane(
    array: Array, arguments: list[str]
) -> tuple[Array, int, int, Sequence[int], Sequence[int]]:
    """Weights of two spatial dimensions, groups, columns of a panel, strides and dilations."""
    groups, nr = int(arguments[0]), int(arguments[1])
    strides, dilations = (ast.literal_eval(a) for a in arguments[2:4])
    if array.ndim == 3:
        array = array[:, :, None, :]
        strides, dilations = (1, *strides), (1, *dilations)
    return array, groups, nr, strides, dilations


def _depthwise(array: Array, arguments: list[str]) -> Array:
    return packing.pack_depthwise(array)


def _depthwise_bf16(array: Array, arguments: list[str]) -> Array:
    return packing_bf16.pack_depthwise_bf16(array)


_PACKERS: Mapping[str, Callable[[Array, list[str]], Array]] = {
    "gemm": _gemm,
    "gemm_i8": _gemm_i8,
    "gemm_bf16": _gemm_bf16,
    "block_codes": _block_rows,
    "block_values": _block_rows,
    "conv": _conv,
    "conv_bf16": _conv_bf16,
    "winograd": _winograd,
    "winograd_bf16": _winograd_bf16,
    "conv_transpose": _conv_transpose,
    "conv_transpose_bf16": _conv_transpose_bf16,
    "depthwise": _depthwise,
    "depthwise_bf16": _depthwise_bf16,
    "rnn_w": packing_layer.pack_w,
    "rnn_r": packing_layer.pack_r,
    "rnn_w_bf16": packing_layer.pack_w_bf16,
    "rnn_r_bf16": packing_layer.pack_r_bf16,
    "rnn_b": packing_layer.pack_bias,
    "rnn_bh": packing_layer.pack_bias_h,
    "rnn_p": packing_layer.pack_peepholes,
}


class WeightLayout:
    """Assigns an offset to each (constant, packing) and yields the packed data."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str], int] = {}
        self.parts: list[tuple[int, Array]] = []
        self.size = 0

    def place(self, weight: Weight, packing_name: str = "") -> int:
        """The byte offset of the constant in the file, packed as ``name:arguments``."""
        key = (weight.digest, packing_name)
        known = self._offsets.get(key)
        if known is not None:
            return known
        array = weight.array
        if packing_name:
            kind, *arguments = packing_name.split(":")
            array = _PACKERS[kind](without_denormals(array, kind), arguments)
        offset = self.size
        self._offsets[key] = offset
        self.parts.append((offset, np.ascontiguousarray(array)))
        self.size = -(-(offset + array.nbytes) // ALIGNMENT) * ALIGNMENT
        return offset
