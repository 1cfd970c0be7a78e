"""Tables of keys: where a value stands among constants, by a search that fuses with its reader."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value
from cuvil.ir.types import I64

Array = np.ndarray[Any, Any]


def first_of_each(keys: Array) -> tuple[Array, Array]:
    """Distinct keys in order, NaN apart at the end, and the place of each one's first."""
    return np.unique(keys, return_index=True)


def position(e: Emitter, x: Value, keys: Array, absent: int) -> Value:
    """For each element the place of the first key equal to it (NaN equals NaN), or ``absent``.

    ``keys`` is 1-D, of the dtype of ``x``, and not empty.
    """
    found, places = first_of_each(keys)
    nan = np.isnan(found) if found.dtype.kind == "f" else np.zeros(len(found), bool)
    order, where = found[~nan], places[~nan]
    out = e.scalar(absent, I64)
    if len(order):
        at = _search(e, x, order)
        key = e.op("gather", e.weight(order), at, axis=0)
        place = e.op("gather", e.weight(where.astype(np.int64)), at, axis=0)
        out = e.map("select", e.map("eq", key, x), place, out)
    if nan.any():
        out = e.map("select", e.op("isnan", x), e.scalar(int(places[nan][0]), I64), out)
    return e.broadcast(out, x.type.shape)


def _search(e: Emitter, x: Value, order: Array) -> Value:
    """The last of ascending numbers that is not above x, or the first."""
    at = e.broadcast(e.scalar(0, I64), x.type.shape)
    table = e.weight(order)
    step = 1 << max((len(order) - 1).bit_length() - 1, 0)
    while step and len(order) > 1:
        tried = e.with_scalar("add", at, step)
        inside = e.with_scalar("min", tried, len(order) - 1)
        lower = e.map("le", e.op("gather", table, inside, axis=0), x)
        lower = e.map("and", lower, e.with_scalar("lt", tried, len(order)))
        at = e.map("select", lower, tried, at)
        step //= 2
    return at


def pick(e: Emitter, values: Array, at: Value) -> Value:
    """The value at each place."""
    return e.op("gather", e.weight(values), at, axis=0)
