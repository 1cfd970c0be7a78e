"""Pooling as gathered windows, for what the pooling operators don't compute. Sizes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from cuvil.frontends.torch_export.call import Call, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import I64
from cuvil.sym.expr import Dim

Array = np.ndarray[Any, Any]


def _known(dims: Sequence[Dim], what: str) -> list[int]:
    if not all(isinstance(d, int) for d in dims):
        raise Refused(f"{what} with symbolic sizes")
    return [int(d) for d in dims]  # type: ignore[arg-type]


def _gathered(c: Call, x: Value, places: Sequence[Array]) -> Value:
    """[lead, *sizes] to [lead, *outputs, windows' elements]; ``places[i]`` is [output, element]
    along the i-th of the trailing axes."""
    count = len(places)
    lead = x.type.rank - count
    for i, table in enumerate(places):
        x = c.e.op("gather", x, c.e.weight(np.ascontiguousarray(table)), axis=lead + 2 * i)
    outputs = [lead + 2 * i for i in range(count)]
    x = c.e.transpose(x, [*range(lead), *outputs, *(o + 1 for o in outputs)])
    elements = prod(table.shape[1] for table in places)
    return c.e.reshape(x, (*x.type.shape[: lead + count], elements))


def sums(
    c: Call, x: Value, sizes: Sequence[Dim], attrs: Mapping[str, Any], include: bool,
    divisor: int | None,
) -> Value:  # fmt: skip
    """Average pooling by sums of windows: integers divide towards zero; a window that leaves the
    padded input (in ceil mode) counts as far as the padding goes."""
    count = len(sizes)
    have = _known(x.type.shape[x.type.rank - count :], "this average pooling")
    wanted = _known(sizes, "this average pooling")
    places, numbers = [], np.ones((1,) * count, np.int64)
    lo = [0] * x.type.rank
    hi = [0] * x.type.rank
    for i in range(count):
        kernel, stride, pad = (attrs[k][i] for k in ("kernel", "strides", "pads_lo"))
        start = np.arange(wanted[i], dtype=np.int64) * stride - pad
        end = np.minimum(start + kernel, have[i] + pad)
        inside = np.minimum(end, have[i]) - np.maximum(start, 0)
        column = [1] * count
        column[i] = -1
        numbers = numbers * (end - start if include else inside).reshape(column)
        axis = x.type.rank - count + i
        lo[axis], hi[axis] = pad, max(int(start[-1]) + kernel - have[i], 0)
        places.append(start[:, None] + pad + np.arange(kernel))
    padded = c.e.op("pad", x, lo=tuple(lo), hi=tuple(hi))
    windows = _gathered(c, padded, places)
    total = c.e.op("reduce_sum", windows, axes=(windows.type.rank - 1,), keepdims=False)
    if divisor is not None:
        return c.e.with_scalar("div", total, divisor)
    table = c.e.weight(numbers.astype(x.type.dtype.numpy))
    return c.e.map("div", total, table)


def places_of_largest(c: Call, x: Value, sizes: Sequence[Dim]) -> Value:
    """Adaptive max pooling's indices into the flattened trailing axes. Cells of unequal size are
    filled up by their last element, which changes neither the maximum nor its first place."""
    count = len(sizes)
    have = _known(x.type.shape[x.type.rank - count :], "indices of adaptive pooling")
    wanted = _known(sizes, "indices of adaptive pooling")
    places = []
    for size, out in zip(have, wanted, strict=True):
        cell = np.arange(out, dtype=np.int64)
        start, end = cell * size // max(out, 1), -(-(cell + 1) * size // max(out, 1))
        width = int(np.max(end - start, initial=1))
        places.append(np.minimum(start[:, None] + np.arange(width), end[:, None] - 1))
    windows = _gathered(c, x, places)
    best = c.e.op("argmax", windows, axis=windows.type.rank - 1, keepdims=True)
    flat = np.zeros((1,) * (2 * count), np.int64)
    for i, (size, table) in enumerate(zip(have, places, strict=True)):
        shape = [1] * (2 * count)
        shape[i], shape[count + i] = table.shape
        flat = flat * size + table.reshape(shape)
    whole = np.broadcast_to(flat, [t.shape[0] for t in places] + [t.shape[1] for t in places])
    table = whole.reshape(*wanted, -1)
    lead = windows.type.shape[: windows.type.rank - count - 1]
    spread = c.e.broadcast(c.e.weight(np.ascontiguousarray(table)), (*lead, *table.shape))
    picked = c.e.op("gather_elements", spread, best, axis=windows.type.rank - 1)
    return c.e.cast(c.e.squeeze(picked, [-1]), I64)
