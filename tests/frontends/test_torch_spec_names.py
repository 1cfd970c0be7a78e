"""Specs of inputs name the parameters of a module's ``forward``, in whatever order they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InputError

QUICK: dict[str, Any] = {"threads": 1}
A, B, C = (np.full((1, 3), v, np.float32) for v in (10, 1, 3))


class Mixed(torch.nn.Module):
    def forward(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None, *,
        k: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        out = a - b
        out = out if c is None else out * c
        return out if k is None else out / k


def spec(*names: str, rows: Any = 1) -> list[Any]:
    return [(name, torch.float32, (rows, 3)) for name in names]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("rows", [1, "n"])
def test_names_in_any_order(names: tuple[str, str], rows: Any) -> None:
    made = cuvil.compile(Mixed(), input_spec=spec(*names, rows=rows), **QUICK)
    assert [i.name for i in made.inputs] == ["a", "b"]
    assert (made.run({"a": A, "b": B})["output"] == 9).all()
    assert (made(a=A, b=B) == 9).all() and (made(A, B) == 9).all()


def test_parameters_in_between_may_be_left_out() -> None:
    made = cuvil.compile(Mixed(), input_spec=spec("k", "b", "a"), **QUICK)
    assert (made.run({"k": C, "a": A, "b": B})["output"] == 3).all()
    made = cuvil.compile(Mixed(), input_spec=spec("c", "b", "a"), **QUICK)
    assert (made.run({"c": C, "a": A, "b": B})["output"] == 27).all()


def test_functions_and_exported_programs() -> None:
    made = cuvil.compile(lambda p, q: p - q, input_spec=spec("q", "p"), **QUICK)
    assert (made.run({"p": A, "q": B})["output"] == 9).all()
    program = torch.export.export(Mixed(), (torch.from_numpy(A), torch.from_numpy(B)))
    made = cuvil.compile(program, input_spec=spec("b", "a"), **QUICK)
    assert (made.run({"a": A, "b": B})["output"] == 9).all()


def test_new_names_rename_the_parameters_at_their_places() -> None:
    for names in (("x", "y"), ("a", "y"), ("x", "b")):
        made = cuvil.compile(Mixed(), input_spec=spec(*names), **QUICK)
        assert [i.name for i in made.inputs] == list(names)
        assert (made.run(dict(zip(names, (A, B), strict=True)))["output"] == 9).all()


def test_a_known_name_at_another_place_beside_a_new_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"'b' comes at place 1, .* number 2; 'y' is no parameter"):
        cuvil.compile(Mixed(), input_spec=spec("b", "y"), **QUICK)


@pytest.mark.parametrize("size", [5, -1, 0])
def test_a_number_that_is_not_the_size_is_no_dynamic_dim(size: int) -> None:
    x = torch.randn(2, 4)
    with pytest.raises(InputError, match=rf"the number {size} for axis 0 of 'input', which is 2"):
        cuvil.compile(torch.nn.Linear(4, 4), (x,), dynamic_dims={"input": {0: size}}, **QUICK)
    made = cuvil.compile(torch.nn.Linear(4, 4), (x,), dynamic_dims={"input": {0: 2}}, **QUICK)
    assert made.inputs[0].shape == (2, 4)
