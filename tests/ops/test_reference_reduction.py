"""Reductions against torch in f64 or int64, and against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from cuvil.errors import InvalidModelError
from tests.ops.checks import check_against, infer, run
from tests.ops.values import Array, Case, case


def _lines(x: Array, axes: tuple[int, ...]) -> Array:
    """The reduced axes moved last and joined."""
    kept = [i for i in range(x.ndim) if i not in axes]
    count = math.prod(x.shape[a] for a in axes)
    return x.transpose([*kept, *axes]).reshape([x.shape[i] for i in kept] + [count])


def _reduced(function: Callable[[torch.Tensor], torch.Tensor], c: Case) -> list[Array]:
    x = c.arrays[0]
    axes = tuple(a % x.ndim for a in c.attrs["axes"])
    wide = {"f": np.float64, "b": np.bool_}.get(x.dtype.kind, np.int64)
    out = function(torch.from_numpy(_lines(x, axes).astype(wide)))
    shape = [1 if i in axes else d for i, d in enumerate(x.shape)]
    if not c.attrs["keepdims"]:
        shape = [d for i, d in enumerate(x.shape) if i not in axes]
    return [out.numpy().astype(x.dtype).reshape(shape)]


_TORCH: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "reduce_sum": lambda x: torch.sum(x, -1),
    "reduce_mean": lambda x: torch.mean(x, -1),
    "reduce_prod": lambda x: torch.prod(x, -1),
    "reduce_max": lambda x: torch.amax(x, -1),
    "reduce_min": lambda x: torch.amin(x, -1),
    "reduce_any": lambda x: torch.any(x, -1),
    "reduce_all": lambda x: torch.all(x, -1),
}


@pytest.mark.parametrize("name", sorted(_TORCH))
def test_reduction(name: str) -> None:
    exact = name not in ("reduce_sum", "reduce_mean", "reduce_prod")
    check_against(name, partial(_reduced, _TORCH[name]), scale=0.0 if exact else 1.0)


def _best(line: list[Any], better: Callable[[Any, Any], bool], last: bool) -> int:
    """A NaN (the first, or the last) if there is one, else the best value."""
    order = list(range(len(line)))
    if last:
        order.reverse()
    for i in order:
        if line[i] != line[i]:
            return i
    best = order[0]
    for i in order:
        if better(line[i], line[best]):
            best = i
    return best


def _arg(better: Callable[[Any, Any], bool], c: Case) -> list[Array]:
    x = c.arrays[0]
    shape = x.shape
    x = x if x.ndim else x.reshape(1)
    axis = c.attrs["axis"] % x.ndim
    moved = np.moveaxis(x, axis, -1)
    places = np.ndindex(moved.shape[:-1])
    picks = [_best(moved[i].tolist(), better, c.attrs["last"]) for i in places]
    out = np.array(picks, np.int64).reshape(moved.shape[:-1])
    return [np.expand_dims(out, axis) if c.attrs["keepdims"] and shape else out]


def test_argmax() -> None:
    check_against("argmax", partial(_arg, lambda a, b: a > b))


def test_argmin() -> None:
    check_against("argmin", partial(_arg, lambda a, b: a < b))


def test_hand_values() -> None:
    x = np.array([100, 100, 100], np.uint8)
    assert run("reduce_sum", case(x, axes=(0,), keepdims=False))[0] == 44
    assert run("reduce_prod", case(np.zeros((2, 0), np.float32), axes=(1,), keepdims=False))[
        0
    ].tolist() == [1.0, 1.0]
    mean = run("reduce_mean", case(np.zeros((1, 0), np.float32), axes=(1,), keepdims=True))[0]
    assert np.isnan(mean).all()
    half = np.full(4096, 16.0, np.float16)
    assert run("reduce_mean", case(half, axes=(0,), keepdims=False))[0] == 16.0


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_nothing_to_choose_from_is_refused(name: str) -> None:
    with pytest.raises(InvalidModelError, match="element along"):
        infer(name, case(np.zeros((2, 0), np.float32), keepdims=False, axis=1))


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("reduce_max", np.float32, -np.inf),
        ("reduce_min", np.float32, np.inf),
        ("reduce_max", np.int8, -128),
        ("reduce_min", np.uint8, 255),
    ],
)
def test_extremes_of_nothing(name: str, dtype: type, expected: float) -> None:
    """As ONNX's ReduceMax and ReduceMin define them."""
    empty = case(np.zeros((2, 0), dtype), axes=(1,), keepdims=False)
    assert run(name, empty)[0].tolist() == [expected, expected]


def test_axis_twice_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="twice"):
        infer("reduce_sum", case(np.zeros((2, 2), np.float32), axes=(1, -1), keepdims=False))
