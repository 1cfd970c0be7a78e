"""Pooling against torch, and against plain loops where torch has no such call."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from cuvil.errors import InvalidModelError
from tests.ops.checks import check_against, infer
from tests.ops.values import Array, Case, case


def _channels_first(c: Case) -> Array:
    return np.moveaxis(c.arrays[0], -1, 1) if c.attrs["channels_last"] else c.arrays[0]


def _back(out: Array, c: Case) -> list[Array]:
    return [np.moveaxis(out, 1, -1) if c.attrs["channels_last"] else out]


def _torch_args(c: Case) -> dict[str, Any] | None:
    """torch pads both ends alike, by at most half the kernel."""
    a = c.attrs
    halves = [k // 2 for k in a["kernel"]]
    if a["pads_lo"] != a["pads_hi"] or any(
        p > k for p, k in zip(a["pads_lo"], halves, strict=True)
    ):
        return None
    return {"kernel_size": a["kernel"], "stride": a["strides"], "padding": a["pads_lo"],
            "ceil_mode": a["ceil_mode"]}  # fmt: skip


def _torch_max(c: Case, index: bool) -> list[Array] | None:
    arguments, x = _torch_args(c), _channels_first(c)
    if arguments is None or (index and np.isnan(x.astype(np.float64)).any()):
        return None
    rank = x.ndim - 2
    function = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[rank - 1]
    out, where = function(
        torch.tensor(x).to(torch.float64), dilation=c.attrs["dilations"], return_indices=True,
        **arguments,
    )  # fmt: skip
    return _back(where.numpy() if index else out.numpy().astype(x.dtype), c)


def _torch_average(c: Case) -> list[Array] | None:
    arguments, x = _torch_args(c), _channels_first(c)
    if arguments is None or set(c.attrs["dilations"]) != {1}:
        return None
    rank = x.ndim - 2
    function = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[rank - 1]
    out = function(
        torch.tensor(x).to(torch.float64), count_include_pad=c.attrs["count_include_pad"],
        **arguments,
    )  # fmt: skip
    return _back(out.numpy().astype(x.dtype), c)


def _line(size: int, a: dict[str, Any], axis: int) -> list[list[int]]:
    """Unpadded coordinates of each window along one axis."""
    kernel, stride, dilation = a["kernel"][axis], a["strides"][axis], a["dilations"][axis]
    lo, hi = a["pads_lo"][axis], a["pads_hi"][axis]
    windows: list[list[int]] = []
    start = -lo
    while start + dilation * (kernel - 1) < size + hi:
        windows.append([start + k * dilation for k in range(kernel)])
        start += stride
    covered = not windows or windows[-1][-1] == size + hi - 1
    if a["ceil_mode"] and not covered and start < size:
        windows.append([start + k * dilation for k in range(kernel)])
    return windows


def _looped(kind: str, c: Case) -> list[Array]:
    """Window by window, in Python."""
    x, a = _channels_first(c), c.attrs
    sizes = x.shape[2:]
    lines = [_line(n, a, i) for i, n in enumerate(sizes)]
    out = np.zeros((*x.shape[:2], *map(len, lines)), np.int64 if kind == "index" else np.float64)
    for place in np.ndindex(*out.shape):
        plane = x[place[:2]]
        window = product(*(line[i] for line, i in zip(lines, place[2:], strict=True)))
        taps = list(window)
        inside = [t for t in taps if all(0 <= p < n for p, n in zip(t, sizes, strict=True))]
        out[place] = _one(kind, plane, taps, inside, a)
    return _back(out if kind == "index" else out.astype(x.dtype), c)


def _one(kind: str, plane: Array, taps: Any, inside: Any, a: dict[str, Any]) -> float:
    values = [float(plane[t]) for t in inside]
    if kind == "average":
        hi = [n + p for n, p in zip(plane.shape, a["pads_hi"], strict=True)]
        padded = [t for t in taps if all(p < n for p, n in zip(t, hi, strict=True))]
        count = len(padded) if a["count_include_pad"] else len(values)
        return sum(values) / count if count else 0.0
    if not values:
        return 0 if kind == "index" else -math.inf
    nans = [i for i, v in enumerate(values) if math.isnan(v)]
    best = nans[0] if nans else max(range(len(values)), key=values.__getitem__)
    return int(np.ravel_multi_index(inside[best], plane.shape)) if kind == "index" else values[best]


def _loop_some(kind: str, c: Case) -> list[Array] | None:
    """The loops are slow: f32 and u8 only."""
    return _looped(kind, c) if c.arrays[0].dtype.name in ("float32", "uint8") else None


def test_max_pool() -> None:
    check_against("max_pool", partial(_torch_max, index=False), scale=0.0)
    check_against("max_pool", partial(_loop_some, "max"), scale=0.0)


def test_max_pool_indices() -> None:
    check_against("max_pool_indices", partial(_torch_max, index=True))
    check_against("max_pool_indices", partial(_loop_some, "index"))


def test_avg_pool() -> None:
    check_against("avg_pool", _torch_average)
    check_against("avg_pool", partial(_loop_some, "average"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"pads_lo": (-1,)}, "negative pads"), ({"kernel": (9,)}, "kernel fits"),
     ({"kernel": (2, 2)}, "needs 1 entries")],
)  # fmt: skip
def test_wrong_windows_are_refused(change: dict[str, Any], reason: str) -> None:
    attrs: dict[str, Any] = {"kernel": (2,), "strides": (1,), "pads_lo": (0,), "pads_hi": (0,)}
    with pytest.raises(InvalidModelError, match=reason):
        infer("max_pool", case(np.zeros((1, 1, 4), np.float32), dilations=(1,), **attrs | change))
