"""torch.linalg.lstsq as the pseudoinverse times the right sides, which torch.export can trace.

Torch's own operator has no rule for the sizes of its results, one of which depends on data: the
residuals of ``gelsd`` and ``gelss``, which are empty where a matrix lacks full rank.
"""

from __future__ import annotations

import torch

from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.frontends.torch_export.places import user_line

_BY_SINGULAR_VALUES = ("gelsd", "gelss")


def least_squares(
    input: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> torch.Tensor:
    """(solution, residuals, rank, singular values) for matrices (..., m, n) and right sides
    (..., m, k) or (..., m): the solution of least norm, in f64 on the way. ``gels`` takes the
    matrices to have full rank; other drivers cut singular values below rcond times the largest.

    Raises UnsupportedOpError for the drivers gelsd and gelss of tall matrices.
    """
    driver = driver or "gelsy"
    rows, columns = input.shape[-2:]
    tall = rows > columns
    if driver in _BY_SINGULAR_VALUES and tall:
        raise _residuals_are_data(input)
    vectors = b.dim() == 1 or (b.dim() == input.dim() - 1 and b.shape == input.shape[:-1])
    wide = input.to(torch.float64)
    sides = (b.unsqueeze(-1) if vectors else b).to(torch.float64)
    if rcond is None:
        rcond = torch.finfo(input.dtype).eps * max(rows, columns)
    inverse = torch.linalg.pinv(wide, rtol=0.0 if driver == "gels" else rcond)
    solution = inverse @ sides
    residuals = rank = values = input.new_empty((0,))
    rank = rank.to(torch.int64)
    if driver == "gels":
        if tall:
            residuals = (wide @ solution - sides).square().sum(-2).to(input.dtype)
    else:
        rank = torch.linalg.matrix_rank(wide, rtol=rcond)
    if driver in _BY_SINGULAR_VALUES:
        values = torch.linalg.svdvals(wide).to(input.dtype)
    solution = (solution.squeeze(-1) if vectors else solution).to(input.dtype)
    made: torch.Tensor = torch.return_types.linalg_lstsq((solution, residuals, rank, values))
    return made


def _residuals_are_data(input: torch.Tensor) -> UnsupportedOpError:
    reason = "the residuals of this driver are empty where a matrix lacks full rank, which is data"
    dtype = str(input.dtype).removeprefix("torch.")
    hint = "leave the driver out, or use driver='gels' for matrices of full rank"
    node = UnsupportedNode("torch.linalg.lstsq", dtype, user_line(), reason, hint)
    return UnsupportedOpError([node])
