"""Random PyTorch programs of views, copies and in-place writes, whose order must hold."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Step = Callable[[list[torch.Tensor]], "torch.Tensor | None"]


@dataclass(frozen=True)
class Statement:
    """``text`` is the statement as Python; ``at`` the tensor that it works on."""

    text: str
    run: Step


class Program(torch.nn.Module):
    """Statements over a growing list of tensors; gives clones of all of them at the end.

    The first tensor is a clone of the input, or the input itself where ``own`` is false.
    """

    def __init__(self, statements: Sequence[Statement], own: bool = True) -> None:
        super().__init__()
        self.statements = tuple(statements)
        self.own = own

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tensors = [x.clone() if self.own else x + 0]
        for statement in self.statements:
            made = statement.run(tensors)
            if made is not None:
                tensors.append(made)
        return tuple(t.clone() for t in tensors)

    def __str__(self) -> str:
        return "\n".join(["t = [x.clone()]", *(s.text for s in self.statements)])


def _view(rng: random.Random, t: torch.Tensor, i: int) -> Statement:
    """A view of tensor ``i`` as it is now (``t``)."""
    kinds = ["t", "flat", "unsqueeze", "slice", "select", "step", "diagonal", "expand", "squeeze"]
    kind = rng.choice(kinds)
    axis = rng.randrange(max(t.dim(), 1))
    size = t.shape[axis] if t.dim() else 1
    start = rng.randrange(size)
    stop = rng.randrange(start, size) + 1
    if kind == "t" and t.dim() >= 2:
        return _made(f"t[{i}].transpose(0, -1)", lambda v: v[i].transpose(0, -1))
    if kind == "flat" and t.is_contiguous() and t.dim():
        return _made(f"t[{i}].view(-1)", lambda v: v[i].view(-1))
    if kind == "slice" and t.dim():
        return _made(
            f"t[{i}].narrow({axis}, {start}, {stop - start})",
            lambda v: v[i].narrow(axis, start, stop - start),
        )
    if kind == "select" and t.dim():
        return _made(f"t[{i}].select({axis}, {start})", lambda v: v[i].select(axis, start))
    if kind == "step" and t.dim():
        index = (slice(None),) * axis + (slice(start, None, 2),)
        return _made(f"t[{i}][{index}]", lambda v: v[i][index])
    if kind == "diagonal" and t.dim() >= 2:
        return _made(f"t[{i}].diagonal(0, 0, 1)", lambda v: v[i].diagonal(0, 0, 1))
    if kind == "squeeze" and t.dim() and size == 1:
        return _made(f"t[{i}].squeeze({axis})", lambda v: v[i].squeeze(axis))
    return _made(f"t[{i}].unsqueeze({axis})", lambda v: v[i].unsqueeze(axis))


def _pure(rng: random.Random, t: torch.Tensor, i: int) -> Statement:
    number = rng.choice([0.5, -1.0, 2.0])
    ways: list[tuple[str, Step]] = [
        (f"t[{i}] * {number}", lambda v: v[i] * number),
        (f"t[{i}].clone()", lambda v: v[i].clone()),
        (f"t[{i}].contiguous()", lambda v: v[i].contiguous()),
        (f"t[{i}].reshape(-1)", lambda v: v[i].reshape(-1)),
        (f"t[{i}].to(torch.float32)", lambda v: v[i].to(torch.float32)),
        (f"t[{i}].relu()", lambda v: v[i].relu()),
        (f"t[{i}].sum(-1)" if t.dim() else f"t[{i}].sum()",
         lambda v: v[i].sum(-1) if v[i].dim() else v[i].sum()),
    ]  # fmt: skip
    return _made(*rng.choice(ways))


def _write(rng: random.Random, tensors: Sequence[torch.Tensor], i: int) -> Statement:
    t = tensors[i]
    number = rng.choice([3.0, -0.25, 1.5])
    others = [j for j, o in enumerate(tensors) if j != i and _fits(o, t) and not _overlap(o, t)]
    ways: list[tuple[str, Callable[[list[torch.Tensor]], Any]]] = [
        (f"t[{i}].add_({number})", lambda v: v[i].add_(number)),
        (f"t[{i}].mul_({number})", lambda v: v[i].mul_(number)),
        (f"t[{i}].fill_({number})", lambda v: v[i].fill_(number)),
        (f"t[{i}].relu_()", lambda v: v[i].relu_()),
        (f"t[{i}].neg_()", lambda v: v[i].neg_()),
        (f"t[{i}].clamp_(-1, 1)", lambda v: v[i].clamp_(-1, 1)),
        (f"t[{i}].masked_fill_(t[{i}] > 0, {number})",
         lambda v: v[i].masked_fill_(v[i] > 0, number)),
    ]  # fmt: skip
    if t.dim():
        at = rng.randrange(t.shape[0])
        ways.append((f"t[{i}][{at}] = {number}", lambda v: v[i].__setitem__(at, number)))
        ways.append((f"t[{i}][{at}:] += {number}", lambda v: v[i][at:].add_(number)))
    for j in others[:2]:
        ways.append((f"t[{i}].copy_(t[{j}])", lambda v, j=j: v[i].copy_(v[j])))
        ways.append((f"t[{i}].add_(t[{j}])", lambda v, j=j: v[i].add_(v[j])))
    text, run = rng.choice(ways)
    return Statement(text, lambda v: (run(v), None)[1])


def _made(text: str, run: Step) -> Statement:
    return Statement(f"t.append({text})", run)


def _fits(small: torch.Tensor, big: torch.Tensor) -> bool:
    try:
        return torch.broadcast_shapes(small.shape, big.shape) == big.shape
    except RuntimeError:
        return False


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether they share storage: writing from one to the other then has no defined result."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def random_program(seed: int) -> tuple[Program, torch.Tensor]:
    """A program with its input; it runs in PyTorch as it stands."""
    rng = random.Random(seed)
    shape = tuple(rng.randrange(1, 4) for _ in range(rng.randrange(1, 4)))
    generator = torch.Generator().manual_seed(seed)
    # Small whole numbers: every result is exact, so that results are compared for equality.
    x = torch.randint(-8, 9, shape, generator=generator).float()
    tensors = [x.clone()]
    statements: list[Statement] = []
    while len(statements) < rng.randrange(4, 12):
        i = rng.randrange(len(tensors))
        kind = rng.random()
        if kind < 0.4:
            statement = _view(rng, tensors[i], i)
        elif kind < 0.55:
            statement = _pure(rng, tensors[i], i)
        else:
            statement = _write(rng, tensors, i)
        made = statement.run(tensors)
        if made is not None:
            tensors.append(made)
        statements.append(statement)
    return Program(statements, rng.random() < 0.7), x


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Statements left out one at a time, last first, as long as it still fails."""
    current = list(program.statements)
    for at in range(len(current) - 1, -1, -1):
        shorter = current[:at] + current[at + 1 :]
        try:
            if fails(Program(shorter, program.own)):
                current = shorter
        except (IndexError, RuntimeError, TypeError):
            continue  # what is left refers to what was left out
    return Program(current, program.own)
