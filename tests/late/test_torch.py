"""PyTorch programs whose sizes depend on data, compiled and compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export.capture import capture_torch
from cuvil.runtime.artifact import Artifact
from tools.quick_build import quick_build

Run = Callable[..., Any]


class Module(nn.Module):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def forward(self, *args: torch.Tensor) -> Any:
        return self.run(*args)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("late")


def built(run: Run, folder: Path, *example: torch.Tensor, dynamic: Any = None) -> Artifact:
    return quick_build(capture_torch(Module(run), example, dynamic=dynamic), folder, 0)


def same(artifact: Artifact, run: Run, *args: torch.Tensor) -> None:
    want = run(*args)
    want = list(want) if isinstance(want, (tuple, list)) else [want]
    names = [s.name for s in artifact.inputs]
    got = list(artifact.run(dict(zip(names, args, strict=True))).values())
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        torch.testing.assert_close(a, b, equal_nan=True)


def masks(*shape: int) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    some = torch.rand(shape, generator=g) > 0.6
    return [some, torch.zeros(shape, dtype=torch.bool), torch.ones(shape, dtype=torch.bool)]


X = torch.arange(24, dtype=torch.float32).reshape(4, 6) - 7

MASKED: Sequence[Run] = (
    lambda x, m: torch.masked_select(x, m),
    lambda x, m: x[m] * 2,
    lambda x, m: torch.masked_select(x[0], m),
    lambda x, m: torch.nonzero(m),
    lambda x, m: torch.relu(x)[m].sum(),
    lambda x, m: torch.stack(torch.where(m)),
    lambda x, m: x[m[:, 0]],
    lambda x, m: x[:, m[0]],
    lambda x, m: x[m[:, 1]].softmax(-1) @ x.T,
)


def all_of(runs: Sequence[Run]) -> Run:
    """One program that returns what each of several does: one export and one build."""

    def run(*args: torch.Tensor) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for one in runs:
            got = one(*args)
            found += got if isinstance(got, (tuple, list)) else [got]
        return found

    return run


def test_masks(folder: Path) -> None:
    run = all_of(MASKED)
    artifact = built(run, folder, X, masks(4, 6)[0])
    for mask in masks(4, 6):
        same(artifact, run, X, mask)


UNIQUE: Sequence[Run] = (
    lambda x: torch.unique(x),
    lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True),
    lambda x: torch.unique(x, dim=1),
    lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    lambda x: torch.unique_consecutive(x, dim=0),
)


def test_unique(folder: Path) -> None:
    run = all_of(UNIQUE)
    g = torch.Generator().manual_seed(1)
    draw = lambda high: torch.randint(0, high, (9, 2), generator=g)  # noqa: E731
    artifact = built(run, folder, draw(3))
    for high in (1, 2, 5, 100):
        same(artifact, run, draw(high))


def test_nans_are_each_one_of_their_own(folder: Path) -> None:
    run: Run = lambda x: torch.unique(x, return_counts=True)  # noqa: E731
    x = torch.tensor([1.0, float("nan"), -0.0, 0.0, float("nan"), 1.0])
    same(built(run, folder, x), run, x)


def test_repeats_and_counts(folder: Path) -> None:
    x = torch.arange(8.0).reshape(4, 2)
    cases: list[tuple[Run, list[tuple[torch.Tensor, ...]]]] = [
        (
            lambda x, r: x.repeat_interleave(r, dim=0),
            [(x, torch.tensor(r)) for r in ([1, 2, 0, 3], [0, 0, 0, 0], [1, 1, 1, 1])],
        ),
        (
            lambda r: torch.repeat_interleave(r),
            [(torch.tensor(r),) for r in ([2, 0, 1], [0, 0, 0])],
        ),
        (lambda v: torch.bincount(v), [(torch.tensor(v),) for v in ([1, 3, 1], [0, 0, 0])]),
        (
            lambda v, w: torch.bincount(v, w, minlength=3),
            [(torch.tensor(v), torch.tensor([0.5, 1, 2])) for v in ([1, 1, 0], [5, 0, 5])],
        ),
    ]
    for run, calls in cases:
        artifact = built(run, folder, *calls[0])
        for args in calls:
            same(artifact, run, *args)
    artifact = built(cases[1][0], folder, *cases[1][1][0])
    with pytest.raises(ShapeConstraintError, match="the sum of the repeats"):
        artifact(torch.tensor([3, -1, 2]))


def test_a_number_read_from_a_tensor_is_a_size(folder: Path) -> None:
    def run(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = n.item()
        torch._check(size >= 1)
        torch._check(size <= 6)
        return x[:, :size] + 1, torch.arange(size), torch.ones(size, 2)

    artifact = built(run, folder, X, torch.tensor(3))
    for n in (1, 2, 6):
        same(artifact, run, X, torch.tensor(n))
    for n in (0, 7, -1):
        with pytest.raises(ShapeConstraintError, match="a number read from a tensor"):
            artifact(X, torch.tensor(n))


def test_a_number_read_from_a_tensor_may_be_negative(folder: Path) -> None:
    def run(x: torch.Tensor, n: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
        return x * n.item() + (n.item() - 2) * f.item()

    artifact = built(run, folder, X, torch.tensor(3), torch.tensor(0.5))
    for n in (-4, 0, 9):
        same(artifact, run, X, torch.tensor(n), torch.tensor(0.25))


def test_symbols_of_inputs_and_data_together(folder: Path) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        kept = x[x[:, 0] > 0]
        return torch.cat([kept, x]) @ torch.ones(3, 5)

    artifact = built(run, folder, torch.randn(8, 3), dynamic={"args_0": {0: "n"}})
    for n in (1, 5, 33):
        same(artifact, run, torch.randn(n, 3))


def test_one_hot_of_as_many_classes_as_there_are(folder: Path) -> None:
    run: Run = torch.nn.functional.one_hot
    artifact = built(run, folder, torch.tensor([[0, 2]]))
    for rows in ([[0, 2]], [[0, 0]], [[5, 1]]):
        same(artifact, run, torch.tensor(rows))
    for row in ([-1, 3], [-2, -1]):
        with pytest.raises(ShapeConstraintError):
            artifact(torch.tensor([row]))
