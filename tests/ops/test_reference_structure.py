"""Cumsum, topk and scatter against plain loops and sorts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from cuvil.errors import InvalidModelError
from tests.ops.checks import check_against, infer, run
from tests.ops.test_reference_maps import wrapped
from tests.ops.values import Array, Case, case


def test_cumsum() -> None:
    def oracle(c: Case) -> list[Array]:
        x, a = c.arrays[0], c.attrs
        moved = np.moveaxis(x, a["axis"], -1)
        out = np.zeros(moved.shape, x.dtype)
        for place in np.ndindex(*moved.shape[:-1]):
            line = moved[place].tolist()
            for i in range(len(line)):
                part = line[i:] if a.get("reverse") else line[: i + 1]
                if a.get("exclusive"):
                    part = line[i + 1 :] if a.get("reverse") else line[:i]
                total = sum(part)
                out[place][i] = total if x.dtype.kind == "f" else wrapped(total, x.dtype)
        return [np.moveaxis(out, -1, a["axis"])]

    check_against("cumsum", oracle)


def _key(value: Any, largest: bool) -> tuple[int, float]:
    """NaN is above +inf."""
    nan = value != value
    if largest:
        return (0, 0.0) if nan else (1, -float(value))
    return (1, 0.0) if nan else (0, float(value))


def test_topk() -> None:
    def oracle(c: Case) -> list[Array]:
        x, a = c.arrays[0], c.attrs
        moved = np.moveaxis(x, a["axis"], -1)
        picks = np.zeros((*moved.shape[:-1], a["k"]), np.int64)
        for place in np.ndindex(*moved.shape[:-1]):
            line = moved[place].tolist()
            keys = [(*_key(v, a["largest"]), i) for i, v in enumerate(line)]
            picks[place] = [key[-1] for key in sorted(keys)][: a["k"]]
        values = np.zeros(picks.shape, x.dtype)
        for spot in np.ndindex(*picks.shape):
            values[spot] = moved[spot[:-1]][picks[spot]]
        return [np.moveaxis(values, -1, a["axis"]), np.moveaxis(picks, -1, a["axis"])]

    check_against("topk", oracle, scale=0.0)


def _combine(old: Any, new: Any, reduction: str) -> Any:
    if reduction in ("max", "min"):
        if old != old or new != new:
            return float("nan")
        return max(old, new) if reduction == "max" else min(old, new)
    return {"none": new, "add": old + new, "mul": old * new}[reduction]


def _scatter(name: str, c: Case) -> list[Array]:
    data, index, updates = c.arrays
    cells = {p: data[p].item() for p in np.ndindex(*data.shape)}
    for place in np.ndindex(*updates.shape):
        if name == "scatter_nd":
            lead = index.ndim - 1
            target = (*(int(i) for i in index[place[:lead]]), *place[lead:])
        else:
            spot = list(place)
            spot[c.attrs["axis"]] = int(index[place])
            target = tuple(spot)
        target = tuple(t % n for t, n in zip(target, data.shape, strict=True))
        reduction = c.attrs.get("reduction", "none")
        cells[target] = _combine(cells[target], updates[place].item(), reduction)
    out = np.zeros(data.shape, data.dtype)
    for p, value in cells.items():
        out[p] = value if data.dtype.kind == "f" else wrapped(value, data.dtype)
    return [out]


@pytest.mark.parametrize("name", ["scatter_elements", "scatter_nd"])
def test_scatter(name: str) -> None:
    check_against(name, partial(_scatter, name))


def test_last_duplicate_wins() -> None:
    x, index = np.zeros(3, np.float32), np.array([2, 2, -1])
    out = run("scatter_elements", case(x, index, np.float32([1, 2, 3]), axis=0))[0]
    assert out.tolist() == [0.0, 0.0, 3.0]
    assert not x.any()


def test_index_outside_is_an_error() -> None:
    x, one = np.zeros(3, np.float32), np.ones(1, np.float32)
    for index in (3, -4):
        with pytest.raises(IndexError):
            run("scatter_elements", case(x, np.array([index]), one, axis=0))
        with pytest.raises(IndexError):
            run("scatter_nd", case(x, np.array([[index]]), one))


def test_wrong_calls_are_refused() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(InvalidModelError, match="k and dimension 1"):
        infer("topk", case(x, k=4, axis=1, largest=True, sorted=True))
    index = np.zeros((2, 3), np.int64)
    with pytest.raises(InvalidModelError, match="'mean' is not one of"):
        infer("scatter_elements", case(x, index, x, axis=0, reduction="mean"))
    with pytest.raises(InvalidModelError, match="indices and updates"):
        infer("scatter_elements", case(x, index[:1], x, axis=0))
    with pytest.raises(InvalidModelError, match="need the rank"):
        infer("scatter_nd", case(x, index[:, :1], x[0]))


def test_running_extremes() -> None:
    def oracle(greatest: bool, c: Case) -> list[Array]:
        x, axis = np.moveaxis(c.arrays[0], c.attrs["axis"], -1), c.attrs["axis"]
        places = np.zeros(x.shape, np.int64)
        for place in np.ndindex(*x.shape[:-1]):
            best = 0
            for i, value in enumerate(x[place].tolist()):
                now = x[place][best]
                if value != value or (now == now and (value >= now if greatest else value <= now)):
                    best = i
                places[place][i] = best
        values = np.take_along_axis(x, places, -1)
        return [np.moveaxis(values, -1, axis), np.moveaxis(places, -1, axis)]

    check_against("cummax", partial(oracle, True), scale=0.0)
    check_against("cummin", partial(oracle, False), scale=0.0)


def test_running_products_and_log_sums() -> None:
    def product(c: Case) -> list[Array] | None:
        x, a = c.arrays[0], c.attrs
        if x.dtype.kind != "f" or a.get("exclusive") or a.get("reverse"):
            return None
        return [np.cumprod(x.astype(np.float64), axis=a["axis"]).astype(x.dtype)]

    def log_sum(c: Case) -> list[Array] | None:
        x = c.arrays[0].astype(np.float64)
        if not np.isfinite(x).all() or np.abs(x).max(initial=0) > 300:
            return None
        with np.errstate(divide="ignore"):
            return [np.log(np.cumsum(np.exp(x), axis=c.attrs["axis"])).astype(c.arrays[0].dtype)]

    check_against("cumprod", product)
    check_against("logcumsumexp", log_sum, scale=4.0)


def test_common_divisors() -> None:
    a, b = np.array([12, -12, 0, 7, -128], np.int8), np.array([18, 18, 0, 0, 0], np.int8)
    assert run("gcd", case(a, b))[0].tolist() == [6, 6, 0, 7, -128]
