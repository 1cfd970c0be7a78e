"""Reductions and products of wide integers as ONNX: exact modulo their width, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import cuvil
from tests.ops.values import Array

_HARD = np.array(
    [[2**53 + 1, 1, 1, 0], [2**62, 2**62, 2**62 + 1, 2**62], [-3, 2**61 + 1, 7, 1]], np.int64
)


class _Call(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def _values(dtype: str) -> Array:
    rng = np.random.default_rng(3)
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, (3, 5, 40), np.dtype(dtype).type) | 1
    if dtype == "int64":
        values[:, 0, :4] = _HARD
    return values


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_sums_wrap_exactly(dtype: str, axes: tuple[int, ...]) -> None:
    x = _values(dtype)
    kind = getattr(torch, dtype)
    model = _Call(lambda v: v.sum(dim=axes, dtype=kind))
    built = cuvil.compile(model, (torch.from_numpy(x),), target="onnx")
    expected = x.sum(axis=axes, dtype=dtype)
    np.testing.assert_array_equal(np.asarray(built(x)), expected)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_products_wrap_exactly(dtype: str, axis: int) -> None:
    x = _values(dtype)
    model = _Call(lambda v: v.prod(dim=axis, keepdim=True, dtype=getattr(torch, dtype)))
    built = cuvil.compile(model, (torch.from_numpy(x),), target="onnx")
    expected = x.prod(axis=axis, keepdims=True, dtype=dtype)
    np.testing.assert_array_equal(np.asarray(built(x)), expected)


def test_symbolic_sizes_are_summed_exactly() -> None:
    n = cuvil.Dim("n", min=0, max=50)
    model = _Call(lambda v: torch.cat([v.sum(dim=0), v.prod(dim=0), v.cumsum(0).sum(0)]))
    built = cuvil.compile(
        model, (torch.from_numpy(_HARD),), target="onnx", dynamic_dims={"x": {0: n}}
    )
    for rows in (1, 2, 3, 0):
        x = _HARD[:rows]
        with np.errstate(over="ignore"):
            expected = np.concatenate([x.sum(0), x.prod(0), np.cumsum(x, 0).sum(0)])
        np.testing.assert_array_equal(np.asarray(built(x)), expected)


def test_products_of_matrices_wrap_exactly() -> None:
    model = _Call(lambda v: v @ v.transpose(0, 1))
    built = cuvil.compile(model, (torch.from_numpy(_HARD),), target="onnx")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.asarray(built(_HARD)), _HARD @ _HARD.T)
