"""torch.linalg.lstsq against NumPy's in f64, and against torch's residuals, ranks and values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same, interpret
from tools.quick_build import quick_build


def _matrix(rows: int, columns: int, rank: int) -> torch.Tensor:
    """Small whole numbers, so that the rank is exact."""
    random = np.random.default_rng(rows * 10 + columns)
    base = random.integers(-4, 5, (rows, columns))
    base[:, rank:] = base[:, :1]
    return torch.tensor(base, dtype=torch.float32)


@pytest.mark.parametrize("shape", [(5, 3, 3), (3, 3, 3), (3, 5, 5), (5, 3, 2), (4, 4, 2)])
def test_the_solution_of_least_norm(shape: tuple[int, int, int]) -> None:
    a = _matrix(*shape)
    b = torch.arange(a.shape[0] * 2, dtype=torch.float32).reshape(-1, 2) - 3
    model = Fn(lambda a, b: (torch.linalg.lstsq(a, b).solution, torch.linalg.lstsq(a, b).rank))
    found = interpret(capture_torch(model, (a, b)), (a, b))
    solution, _, rank, _ = np.linalg.lstsq(a.double().numpy(), b.double().numpy(), rcond=1e-6)
    np.testing.assert_allclose(found[0], solution, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found[1], rank)


def test_all_that_each_driver_gives() -> None:
    def every(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        found = [torch.linalg.lstsq(a, b, driver="gels"), torch.linalg.lstsq(a, b)]
        found += [torch.linalg.lstsq(a.mT, b[..., :3, :], driver="gelsd")]
        return [tensor for results in found for tensor in results]

    torch.manual_seed(0)
    args = (torch.randn(2, 4, 3), torch.randn(2, 4, 2))
    assert_same(capture_torch(Fn(every), args), Fn(every), args, rtol=1e-4, atol=1e-4)


def test_a_vector_for_each_matrix() -> None:
    model = Fn(lambda a, b: tuple(torch.linalg.lstsq(a, b, driver="gels"))[:2])
    torch.manual_seed(0)
    for args in ((torch.randn(4, 3), torch.randn(4)), (torch.randn(2, 4, 3), torch.randn(2, 4))):
        assert_same(capture_torch(model, args), model, args, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank, residuals", [(3, 2), (2, 0)])
def test_residuals_of_singular_values_are_empty_without_full_rank(
    rank: int, residuals: int
) -> None:
    model = Fn(lambda a, b: tuple(torch.linalg.lstsq(a, b, driver="gelsd")))
    args = (_matrix(5, 3, rank), torch.arange(10, dtype=torch.float32).reshape(5, 2))
    assert model(*args)[1].shape == (residuals,)
    module = capture_torch(model, (_matrix(5, 3, 3), args[1]))
    assert_same(module, model, args, rtol=1e-4, atol=1e-4)


def test_residuals_of_a_batch_need_full_rank_in_each_call(tmp_path: Path) -> None:
    model = Fn(lambda a, b: torch.linalg.lstsq(a, b, driver="gelss").residuals)
    full, not_full = (_matrix(4, 3, rank).expand(2, 4, 3).contiguous() for rank in (3, 2))
    right = torch.arange(16, dtype=torch.float32).reshape(2, 4, 2)
    artifact = quick_build(capture_torch(model, (full, right)), tmp_path, 0)
    torch.testing.assert_close(artifact(full, right), model(full, right), rtol=1e-4, atol=1e-4)
    with pytest.raises(ShapeConstraintError, match="a number read from a tensor"):
        artifact(not_full, right)
