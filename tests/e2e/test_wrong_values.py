"""Values for which torch raises an error: where a call does too, and where it gives a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cuvil
from tests.frontends.torch_helper import Fn


def _put(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[x > 0] = values
    return y


_X, _ROWS = torch.arange(12.0).reshape(4, 3), torch.ones(2, 3)
_CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[tuple[Any, ...]]]] = {
    "one_hot": (
        lambda i: torch.nn.functional.one_hot(i, 4), (torch.tensor([0, 3]),),
        [(torch.tensor([4, 0]),), (torch.tensor([0, -1]),)],
    ),
    "index_add": (
        lambda x, i, y: x.index_add(0, i, y), (_X, torch.tensor([3, 1]), _ROWS),
        [(_X, torch.tensor([-1, 1]), _ROWS), (_X, torch.tensor([4, 1]), _ROWS)],
    ),
    "index_copy": (
        lambda x, i, y: x.index_copy(0, i, y), (_X, torch.tensor([3, 1]), _ROWS),
        [(_X, torch.tensor([-1, 1]), _ROWS)],
    ),
    "scatter": (
        lambda x, i: x.scatter(1, i, 7.0), (_X, torch.tensor([[0, 2]])),
        [(_X, torch.tensor([[0, -1]])), (_X, torch.tensor([[0, 3]]))],
    ),
    "masked": (
        _put, (torch.tensor([1.0, -1.0, 2.0]), torch.tensor([5.0, 6.0])),
        [(torch.tensor(x), torch.tensor([5.0, 6.0]))
         for x in ([1.0, 1.0, 2.0], [-1.0, 1.0, -2.0], [-1.0, -1.0, -2.0])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_indices_and_counts_that_do_not_fit_are_errors(name: str) -> None:
    function, example, wrong = _CASES[name]
    artifact = cuvil.compile(Fn(function), example)
    torch.testing.assert_close(artifact(*example), function(*example))
    for values in wrong:
        with pytest.raises((IndexError, RuntimeError)):
            function(*values)
        with pytest.raises(cuvil.CuvilError):
            artifact(*values)


def test_what_gives_a_value() -> None:
    """The table of the page on PyTorch."""
    divide = cuvil.compile(Fn(lambda a, b: (a // b, a % b)), (torch.tensor([5]), torch.tensor([2])))
    assert [x.tolist() for x in divide(torch.tensor([5]), torch.tensor([0]))] == [[0], [0]]
    inverse = cuvil.compile(Fn(torch.linalg.inv), (torch.eye(2),))
    assert inverse(torch.ones(2, 2)).isnan().all()
