"""torch.linalg.lstsq against NumPy's in f64, and against torch's residuals, ranks and values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cuvil.errors import UnsupportedOpError
from cuvil.frontends.torch_export import capture_torch
from tests.frontends.torch_helper import Fn, assert_same, interpret


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


def test_residuals_that_depend_on_the_rank_are_refused() -> None:
    model = Fn(lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd").solution)
    with pytest.raises(UnsupportedOpError, match="residuals of this driver are empty"):
        capture_torch(model, (torch.randn(4, 3), torch.randn(4, 2)))
