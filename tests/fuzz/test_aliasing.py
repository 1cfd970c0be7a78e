"""A write through one view is seen through another: captured programs against PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from cuvil.frontends.torch_export import capture_torch
from cuvil.reference.interpreter import run_module
from tests.fuzz.alias_programs import Program, random_program, shrink

_A_TEST = 16


class _Several(torch.nn.Module):
    """Programs side by side: one capture costs about as much as another."""

    def __init__(self, programs: Sequence[Program]) -> None:
        super().__init__()
        self.programs = torch.nn.ModuleList(programs)

    def forward(self, *xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(t for program, x in zip(self.programs, xs) for t in program(x))


def _differs(programs: Sequence[Program], xs: Sequence[torch.Tensor]) -> str:
    """Where the capture and PyTorch part; nothing if they agree. Refusals raise."""
    several = _Several(programs)
    want = several(*(x.clone() for x in xs))
    module = capture_torch(several, tuple(x.clone() for x in xs))
    inputs = {n: x.numpy().copy() for n, x in zip(module.main.input_names, xs, strict=True)}
    got = run_module(module, inputs)
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != tuple(b.shape) or not torch.equal(torch.from_numpy(a.copy()), b):
            return f"tensor {number} is {a.tolist()}, in PyTorch {b.tolist()}"
    return ""


def _check(seeds: range) -> None:
    made = [random_program(seed) for seed in seeds]
    if not _differs([p for p, _ in made], [x for _, x in made]):
        return
    for seed, (program, x) in zip(seeds, made, strict=True):
        if _differs([program], [x]):
            small = shrink(program, lambda p, x=x: bool(_differs([p], [x])))  # type: ignore[misc]
            raise AssertionError(
                f"seed {seed}, x = {x.tolist()}\n{small}\n{_differs([small], [x])}"
            )
    raise AssertionError(f"seeds {seeds} differ together, not one by one")


@pytest.mark.parametrize("start", range(0, 48, _A_TEST))
def test_programs_of_views_and_writes(start: int) -> None:
    _check(range(start, start + _A_TEST))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 2000, 50))
def test_many_programs_of_views_and_writes(start: int) -> None:
    _check(range(start, start + 50))


def test_a_lost_write_would_be_seen() -> None:
    program, x = random_program(0)
    wrong = Program(program.statements[:-1], program.own)
    assert len(wrong.statements) < len(program.statements)
    seeds = range(40)
    lost = 0
    for seed in seeds:
        program, x = random_program(seed)
        shorter = Program(program.statements[:-1], program.own)
        pairs = zip(program(x), shorter(x))
        lost += any(not torch.equal(a, b) for a, b in pairs)
    assert lost > 5
