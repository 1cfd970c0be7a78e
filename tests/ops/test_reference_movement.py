"""Sources and movements against torch, numpy.pad and plain loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from cuvil.errors import InvalidModelError
from tests.ops.checks import check_against, infer, run
from tests.ops.values import Array, Case, case


def _iota(c: Case) -> list[Array]:
    out = np.zeros(c.attrs["shape"], np.int64)
    for place in np.ndindex(*out.shape):
        out[place] = place[c.attrs["axis"]]
    return [out.astype(c.attrs["dtype"].numpy)]


def _slice(c: Case) -> list[Array]:
    x, a = c.arrays[0], c.attrs
    out = np.zeros(a["size"], x.dtype)
    for place in np.ndindex(*out.shape):
        rows = zip(a["start"], place, a["step"], strict=True)
        out[place] = x[tuple(s + i * k for s, i, k in rows)]
    return [out]


def _pad(c: Case) -> list[Array]:
    """numpy.pad for what is added, then the crop."""
    x, a = c.arrays[0], c.attrs
    if x.ndim == 0:
        return [x]
    pairs = list(zip(a["lo"], a["hi"], strict=True))
    widths = [(max(lo, 0), max(hi, 0)) for lo, hi in pairs]
    mode = a.get("mode", "constant")
    extra = {"constant_values": np.array(a.get("value", 0)).astype(x.dtype)}
    out = np.pad(x, widths, mode=mode, **(extra if mode == "constant" else {}))
    ends = [n - max(-hi, 0) for n, (_, hi) in zip(out.shape, pairs, strict=True)]
    return [out[tuple(slice(max(-lo, 0), e) for e, (lo, _) in zip(ends, pairs, strict=True))]]


def _positive(index: Array, size: int) -> torch.Tensor:
    return torch.from_numpy(np.where(index < 0, index.astype(np.int64) + size, index))


def _gather(c: Case) -> list[Array]:
    x, index = c.arrays
    axis = c.attrs["axis"] % x.ndim
    flat = _positive(index, x.shape[axis]).reshape(-1).to(torch.int64)
    out = torch.index_select(torch.tensor(x), axis, flat).numpy()
    return [out.reshape(x.shape[:axis] + index.shape + x.shape[axis + 1 :])]


def _gather_elements(c: Case) -> list[Array]:
    x, index = c.arrays
    axis = c.attrs["axis"]
    places = _positive(index, x.shape[axis]).to(torch.int64)
    return [torch.gather(torch.tensor(x), axis, places).numpy()]


def _gather_nd(c: Case) -> list[Array]:
    x, index = c.arrays
    batch = c.attrs.get("batch_dims", 0)
    lead = index.shape[:-1]
    out = np.zeros(lead + x.shape[batch + index.shape[-1] :], x.dtype)
    for place in np.ndindex(*lead):
        out[place] = x[place[:batch] + tuple(int(i) for i in index[place])]
    return [out]


def _dims(c: Case) -> list[Array]:
    values = np.array(c.attrs["values"], np.int64)
    return [values[0] if c.attrs.get("scalar") else values]


def _torch(function: Callable[[list[torch.Tensor], dict[str, Any]], torch.Tensor]) -> Any:
    return lambda c: [function([torch.tensor(a) for a in c.arrays], c.attrs).numpy()]


_ORACLES: Mapping[str, Callable[[Case], list[Array]]] = {
    "constant": lambda c: [c.attrs["value"].array],
    "dims": _dims,
    "iota": _iota,
    "reshape": lambda c: [np.array(c.arrays[0].flatten().tolist(), c.arrays[0].dtype).reshape(
        c.attrs["shape"])],
    "transpose": _torch(lambda x, a: x[0].permute(a["perm"])),
    "broadcast": _torch(lambda x, a: x[0].expand(a["shape"])),
    "slice": _slice,
    "concat": _torch(lambda x, a: torch.cat(x, a["axis"])),
    "pad": _pad,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_ORACLES))
def test_movement(name: str) -> None:
    check_against(name, _ORACLES[name], scale=0.0)


@pytest.mark.parametrize(
    ("start", "size", "step"), [(0, 6, 1), (4, 2, 2), (1, 3, -1), (-1, 1, 1), (0, -1, 1)]
)
def test_slice_outside_is_refused(start: int, size: int, step: int) -> None:
    wrong = case(np.zeros(5, np.float32), start=(start,), size=(size,), step=(step,))
    with pytest.raises(InvalidModelError, match="slice: dimension 0"):
        infer("slice", wrong)


def test_index_outside_is_an_error() -> None:
    x = np.zeros((2, 3), np.float32)
    for index in (3, -4):
        with pytest.raises(IndexError):
            run("gather", case(x, np.array([index]), axis=1))
        with pytest.raises(IndexError):
            run("gather_elements", case(x, np.array([[index]]), axis=1))
