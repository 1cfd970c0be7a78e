"""Writes through operators that return views though their schemas don't say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch.nn.functional import dropout, feature_alpha_dropout

from cuvil.errors import InvalidModelError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, interpret

Through = Callable[[torch.Tensor], torch.Tensor]
# For x of [2, 3]: each of these is a view of x.
VIEWS: dict[str, Through] = {
    "type_as": lambda x: x.type_as(torch.ones(1)),
    "einsum": lambda x: torch.einsum("ij->ji", x),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, torch.ones(3))[0],
    "broadcast_tensors that repeats": lambda x: torch.broadcast_tensors(x, torch.ones(2, 1, 1))[0],
    "meshgrid": lambda x: torch.meshgrid(x[0], torch.ones(2), indexing="ij")[0],
    "atleast_1d": lambda x: torch.atleast_1d(x[0, 0]),
    "atleast_2d": lambda x: torch.atleast_2d(x[0]),
    "atleast_3d": lambda x: torch.atleast_3d(x),
    "sum_to_size": lambda x: x.sum_to_size(2, 3),
    "unsafe_chunk": lambda x: torch.unsafe_chunk(x, 2, 1)[1],
    "unsafe_split": lambda x: torch.unsafe_split(x, 1)[1],
    "unsafe_split_with_sizes": lambda x: torch.unsafe_split_with_sizes(x, [1, 2], 1)[1],
    "dropout without dropping": lambda x: dropout(x, 0.0, training=True),
    "feature_alpha_dropout": lambda x: feature_alpha_dropout(x, 0.5, training=False),
    "expand to one": lambda x: x.expand(1, 1, 2, 3),
    "whole windows": lambda x: x.unfold(1, 3, 3),
}
SEVERAL = {"broadcast_tensors that repeats", "meshgrid"}  # whose elements may be one in memory
LOSSY: dict[str, Through] = {
    "expand": lambda x: x[0].expand(4, 3),
    "a row of an expansion": lambda x: x[0].expand(4, 3)[1],
    "overlapping windows": lambda x: x.unfold(1, 2, 1),
    "windows with gaps": lambda x: x.unfold(1, 1, 2),
    "narrow_at": lambda x: torch.narrow(x, 1, torch.tensor(1), 2),
}


def written_result(through: Through) -> Through:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        through(y).fill_(3)
        return y

    return run


def written_base(through: Through) -> Through:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        result = through(y)
        y.fill_(3)
        return result * 2

    return run


class AllOf(torch.nn.Module):
    """Functions side by side, since one capture costs about as much as another."""

    def __init__(self, functions: Sequence[Through]) -> None:
        super().__init__()
        self.functions = list(functions)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x) for function in self.functions]


def test_a_write_to_the_result_is_one_to_the_base() -> None:
    names = [n for n in VIEWS if n not in SEVERAL]
    model = AllOf([written_result(VIEWS[n]) for n in names])
    x = torch.tensor([[torch.inf, 1, 2], [-1, -2, 7]])
    found = interpret(capture_torch(model, (x,)), [x])
    for name, have, want in zip(names, found, model(x), strict=True):
        np.testing.assert_array_equal(have, want.numpy(), err_msg=name)
        assert (have == 3).any(), name


def test_a_write_to_the_base_is_seen_in_the_result() -> None:
    views = {n: f for n, f in {**VIEWS, **LOSSY}.items() if n != "narrow_at"}
    x = torch.tensor([[torch.inf, 1, 2], [-1, -2, 7]])
    model = AllOf([written_base(f) for f in views.values()])
    found = interpret(capture_torch(model, (x,)), [x])
    for (name, view), have in zip(views.items(), found, strict=True):
        np.testing.assert_array_equal(have, np.full(view(x).shape, 6, np.float32), err_msg=name)


def test_a_write_to_the_base_of_a_copy_that_should_be_a_view_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="may share memory"):
        capture_torch(Fn(written_base(LOSSY["narrow_at"])), (torch.ones(2, 3),))


@pytest.mark.parametrize("name", [*LOSSY, *sorted(SEVERAL)])
def test_a_write_that_cannot_be_carried_back_is_refused(name: str) -> None:
    why = "may share memory" if name == "narrow_at" else "one in memory|windows overlap"
    with pytest.raises(InvalidModelError, match=why):
        capture_torch(Fn(written_result({**VIEWS, **LOSSY}[name])), (torch.ones(2, 3),))


def test_a_part_that_starts_where_a_tensor_says() -> None:
    def part(x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        return torch.narrow(x, 1, start, 2)

    x = torch.arange(6.0).reshape(2, 3)
    module = capture_torch(Fn(part), (x, torch.tensor(0)))
    for start, expected in ((1, [[1, 2], [4, 5]]), (-3, [[0, 1], [3, 4]])):
        found = interpret(module, [x, torch.tensor(start)])[0]
        np.testing.assert_array_equal(found, expected)
