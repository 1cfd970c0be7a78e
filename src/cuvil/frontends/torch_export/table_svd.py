"""Singular values of matrices, and what is made of them: pseudoinverses and ranks."""

from __future__ import annotations

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Rule
from cuvil.frontends.torch_export.table_contraction import matmul
from cuvil.frontends.torch_export.table_linalg import turned
from cuvil.ir.core import Value
from cuvil.ir.types import I64, DType
from cuvil.sym.expr import Dim, maximum, minimum

Results = list[Value | None]


def _svd(c: Call) -> Results:
    full = bool(c.get("full_matrices", False))
    u, s, vh = c.e.results("svd", c.tensor("A"), full=full)
    return [u, s, vh] if c.get("compute_uv", True) else [None, s, None]


def _eps(dtype: DType) -> float:
    return 2.0**-52 if dtype.size == 8 else 2.0**-23


def _limits(c: Call, m: Dim, n: Dim, dtype: DType) -> tuple[Value, Value]:
    """atol and rtol as torch.linalg takes them: eps max(m, n) is relative where atol is 0."""
    atol, rtol = c.args.get("atol"), c.args.get("rtol")
    larger = c.as_value(c.e.simplify(maximum(m, n)), dtype)
    usual = c.e.with_scalar("mul", larger, _eps(dtype))
    low = c.e.scalar(0, dtype) if atol is None else c.as_value(atol, dtype)
    if rtol is not None:
        return low, c.as_value(rtol, dtype)
    if atol is None:
        return low, usual
    given = Term(c.e, low) > 0
    return low, given.where(0.0, Term(c.e, usual)).value


def _pinv(c: Call) -> Value:
    """V diag(1 / s) U^T over the singular values above max(atol, rtol * the largest)."""
    a, e = c.first, c.e
    m, n = a.type.shape[-2:]
    atol, rtol = _limits(c, m, n, a.type.dtype)
    if c.get("hermitian", False):
        s, u = e.results("eigh", a)
        vh = turned(c, u)
    else:
        u, s, vh = e.results("svd", a, full=False)
    if 0 in (m, n):
        return e.broadcast(e.scalar(0, a.type.dtype), c.shape)
    size = Term(e, e.op("abs", s))
    top = Term(e, e.op("reduce_max", size.value, axes=(s.type.rank - 1,), keepdims=True))
    least = Term(e, e.unsqueeze(rtol, -1)) * top
    least = Term(e, e.unsqueeze(atol, -1)).map("max", least)
    inverse = (size > least).where(1 / Term(e, s), 0.0).value
    scaled = e.map("mul", turned(c, vh), e.unsqueeze(inverse, -2))
    return matmul(c, scaled, turned(c, u))


def _svdvals(c: Call) -> Value:
    return c.e.results("svd", c.tensor("A"), full=False)[1]


def _matrix_rank(c: Call) -> Value:
    """How many singular values (or sizes of eigenvalues) are above max(atol, rtol * the largest).
    ``tol`` is an absolute one."""
    a, e = c.first, c.e
    m, n = a.type.shape[-2:]
    if "tol" in c.args:
        atol, rtol = c.as_value(c.args["tol"], a.type.dtype), e.scalar(0, a.type.dtype)
    else:
        atol, rtol = _limits(c, m, n, a.type.dtype)
    if e.simplify(minimum(m, n)) == 0:
        return e.broadcast(e.scalar(0, I64), c.shape)
    if c.get("hermitian", False):
        sizes = e.op("abs", e.results("eigh", a)[0])
    else:
        sizes = e.results("svd", a, full=False)[1]
    last = (sizes.type.rank - 1,)
    top = Term(e, e.op("reduce_max", sizes, axes=last, keepdims=False))
    least = (Term(e, rtol) * top).map("max", Term(e, atol)).value
    above = e.map("gt", sizes, e.unsqueeze(least, -1))
    return e.op("reduce_sum", e.cast(above, I64), axes=(above.type.rank - 1,), keepdims=False)


RULES: dict[str, Rule] = {
    "_linalg_svd": _svd, "linalg_svdvals": _svdvals,
    "linalg_pinv": _pinv,
    "linalg_matrix_rank": _matrix_rank,
}  # fmt: skip
