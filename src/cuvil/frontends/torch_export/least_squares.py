"""torch.linalg.lstsq as the pseudoinverse times the right sides, which torch.export can trace.

Torch's own operator has no rule for the sizes of its results, one of which depends on data: the
residuals of ``gelsd`` and ``gelss``, which are empty where a matrix lacks full rank. Of one matrix
their size is a late symbol; of several, whose residuals would change their rank, a call with a
matrix that lacks full rank is refused.
"""

from __future__ import annotations

from typing import Any

import torch

_BY_SINGULAR_VALUES = ("gelsd", "gelss")


def least_squares(
    input: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> torch.Tensor:
    """(solution, residuals, rank, singular values) for matrices (..., m, n) and right sides
    (..., m, k) or (..., m): the solution of least norm, in f64 on the way. ``gels`` takes the
    matrices to have full rank; other drivers cut singular values below rcond times the largest.
    """
    driver = driver or "gelsy"
    rows, columns = input.shape[-2:]
    tall = rows > columns
    vectors = b.dim() == 1 or (b.dim() == input.dim() - 1 and b.shape == input.shape[:-1])
    wide = input.to(torch.float64)
    sides = (b.unsqueeze(-1) if vectors else b).to(torch.float64)
    if rcond is None:
        rcond = torch.finfo(input.dtype).eps * max(rows, columns)
    inverse = torch.linalg.pinv(wide, rtol=0.0 if driver == "gels" else rcond)
    solution = inverse @ sides
    residuals = rank = values = input.new_empty((0,))
    rank = rank.to(torch.int64)
    if driver != "gels":
        rank = torch.linalg.matrix_rank(wide, rtol=rcond)
    if tall and driver != "gelsy":
        residuals = (wide @ solution - sides).square().sum(-2).to(input.dtype)
    if driver in _BY_SINGULAR_VALUES:
        if tall:
            residuals = _if_full(residuals, (rank == columns).all())
        values = torch.linalg.svdvals(wide).to(input.dtype)
    solution = (solution.squeeze(-1) if vectors else solution).to(input.dtype)
    made: torch.Tensor = torch.return_types.linalg_lstsq((solution, residuals, rank, values))
    return made


def _if_full(residuals: torch.Tensor, full: torch.Tensor) -> torch.Tensor:
    """The residuals, or none of them where a matrix lacks full rank."""
    if residuals.dim() > 1:
        torch._check(full.sum().item() > 0, lambda: "a matrix lacks full rank")
        return residuals
    count: Any = (full * residuals.numel()).item()
    torch._check(count >= 0)
    torch._check(count <= residuals.numel())
    return residuals[:count]
