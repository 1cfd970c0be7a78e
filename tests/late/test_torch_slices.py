"""Slices whose ends are numbers of the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, interpret


def parts(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = n[0].item(), n[1].item()
    return (x[:a], x[a:b] * 2, x[:, b:], *torch.tensor_split(x, n, 1))  # type: ignore[misc]


def test_ends_inside_outside_from_the_back_and_crossed() -> None:
    x = torch.arange(30.0).reshape(5, 6)
    module = capture_torch(Fn(parts), (x, torch.tensor([1, 3])))
    compiled = cuvil.compile(Fn(parts), (x, torch.tensor([1, 3])))
    for ends in ([1, 3], [0, 0], [3, 2], [-2, -1], [7, 9], [-9, 2]):
        n = torch.tensor(ends)
        want = [t.numpy() for t in parts(x, n)]
        for found in (interpret(module, [x, n]), compiled(x, n)):
            for place, (a, b) in enumerate(zip(found, want, strict=True)):
                np.testing.assert_array_equal(np.asarray(a), b, err_msg=f"{ends}, {place}")


def test_a_place_in_memory_that_is_data_is_refused() -> None:
    def shifted(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (1,), x[n.item() :].storage_offset())  # type: ignore[misc]

    with pytest.raises(UnsupportedOpError, match="depends on a tensor's data"):
        capture_torch(Fn(shifted), (torch.ones(6), torch.tensor(2)))
