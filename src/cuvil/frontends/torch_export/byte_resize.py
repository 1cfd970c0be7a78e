"""Interpolation of bytes as torch does it: whole weights, an axis at a time, rounded between.

ATen/native/cpu/UpSampleKernel.cpp (compute_index_ranges_int16_weights): the weights along an axis
get as many bits as fit 16 with their sign.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call
from cuvil.frontends.torch_export.resize_tables import Axis, product_along, whole_weights
from cuvil.ir.core import Value
from cuvil.ir.types import I32, U8

Weights = Callable[[int, int, float], np.ndarray]  # of size, outputs, inputs an output
Table = Callable[[Call, Axis], Value]
_FEW = 8  # taps that are read one by one


def scale_of(size: int, out: int, factor: float | None, corners: bool) -> float:
    """How many inputs lie between two outputs (area_pixel_compute_scale)."""
    if corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / float(factor) if factor else size / out


def plain_weights(cubic: bool, corners: bool) -> Weights:
    """[out, size]: weights without antialiasing; edges repeat."""

    def table(size: int, out: int, scale: float) -> np.ndarray:
        found = np.zeros((out, size))
        place = np.arange(out) * scale if corners else (np.arange(out) + 0.5) * scale - 0.5
        place = place if cubic else np.maximum(place, 0)
        low = np.floor(place).astype(np.int64)
        for tap in range(-1, 3) if cubic else range(2):
            distance = np.abs(place - low - tap)
            weight = _keys(distance) if cubic else np.maximum(1 - distance, 0)
            np.add.at(found, (np.arange(out), np.clip(low + tap, 0, size - 1)), weight)
        return found

    return table


def _keys(d: np.ndarray) -> np.ndarray:
    """Keys' cubic with a = -0.75."""
    a = -0.75
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    return np.where(d < 1, near, np.where(d < 2, (((d - 5) * d + 8) * d - 4) * a, 0))


def resized_bytes(c: Call, corners: bool, weights: Weights, late: Table) -> Value:
    """The image [N, C, H, W] of bytes at its new size, columns first. ``late`` computes weights of
    symbolic sizes in each call."""
    x = c.first
    given = c.args.get("scale_factors") or [c.args.get("scales_h"), c.args.get("scales_w")]
    for axis, factor in ((3, given[1]), (2, given[0])):
        size, out = x.type.shape[axis], c.shape[axis]
        if not isinstance(size, int) or not isinstance(out, int):
            x = _by_table(c, x, axis, Axis(size, out, factor, corners), late)
        elif size != out:
            x = _along(c, x, axis, weights(size, out, scale_of(size, out, factor, corners)))
    return x


def _by_table(c: Call, x: Value, place: int, axis: Axis, late: Table) -> Value:
    whole, power = whole_weights(c, axis, late(c, axis))
    one = Term(c.e, power)
    total = Term(c.e, product_along(c, c.e.cast(x, I32), place, whole))
    rounded = (total + one.map("floordiv", 2)).map("floordiv", one)
    return rounded.map("max", 0).map("min", 255).cast(U8).value


def _along(c: Call, x: Value, axis: int, table: np.ndarray) -> Value:
    bits, top = 0, table.max()
    while bits < 21 and int(0.5 + top * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    whole = np.trunc(table * (1 << bits) + np.copysign(0.5, table)).astype(np.int32)
    wide = c.e.cast(x, I32)
    most = int((whole != 0).sum(axis=1).max())
    total = Term(c.e, (_by_taps if most <= _FEW else _by_product)(c, wide, axis, whole, most))
    rounded = (total + (1 << (bits - 1))).map("floordiv", 1 << bits)
    return rounded.map("max", 0).map("min", 255).cast(U8).value


def _by_taps(c: Call, x: Value, axis: int, table: np.ndarray, most: int) -> Value:
    order = np.argsort(table == 0, axis=1, kind="stable")[:, :most]  # those that aren't 0 first
    picked = np.take_along_axis(table, order, axis=1)
    total: Term | None = None
    for tap in range(most):
        part = c.e.op("gather", x, c.e.weight(order[:, tap].astype(np.int64)), axis=axis)
        column = picked[:, tap].astype(np.int32).reshape((-1,) + (1,) * (3 - axis))
        term = Term(c.e, part) * Term(c.e, c.e.weight(column))
        total = term if total is None else total + term
    assert total is not None
    return total.value


def _by_product(c: Call, x: Value, axis: int, table: np.ndarray, most: int) -> Value:
    return product_along(c, x, axis, c.e.weight(table))
