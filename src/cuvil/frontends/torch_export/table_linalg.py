"""torch.linalg's factorisations and what is solved by them.

Where torch raises an error for the values of a matrix (a singular one, one that is not positive
definite), an artifact gives NaN.
"""

from __future__ import annotations

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.frontends.torch_export.table_arithmetic import sign_of
from cuvil.frontends.torch_export.table_create import triangle_of
from cuvil.frontends.torch_export.table_shape import swap
from cuvil.ir.core import Value
from cuvil.ir.types import I32, I64, DType
from cuvil.sym.expr import Dim, add, minimum, mul, product

Results = list[Value | None]


def turned(c: Call, x: Value) -> Value:
    """The transpose of each matrix."""
    return swap(c, x, -1, -2)


def _batch(c: Call, *matrices: Value) -> list[Value]:
    """All with one batch."""
    shapes = [m.type.shape[:-2] for m in matrices]
    batch = c.e.context.broadcast(shapes, f"{c.name}: batch")
    return [c.e.broadcast(m, (*batch, *m.type.shape[-2:])) for m in matrices]


def _eye(c: Call, size: Dim, dtype: DType) -> Value:
    rows, columns = (c.e.op("iota", shape=(size, size), axis=i, dtype=I64) for i in (0, 1))
    return c.e.cast(c.e.op("eq", rows, columns), dtype)


def _solve_triangular(
    c: Call, a: Value, b: Value, *, upper: bool, unit: bool = False, left: bool = True
) -> Value:
    """x with a x = b, or x a = b, which is a^T x^T = b^T."""
    if not left:
        out = _solve_triangular(c, turned(c, a), turned(c, b), upper=not upper, unit=unit)
        return turned(c, out)
    a, b = _batch(c, a, b)
    return c.e.op("triangular_solve", a, b, upper=upper, unit=unit)


def _rule_solve_triangular(c: Call) -> Value:
    flags = {"upper": bool(c["upper"]), "unit": bool(c.get("unitriangular", False))}
    return _solve_triangular(c, c.tensor("self"), c.tensor("B"), left=bool(c["left"]), **flags)


def _legacy_solve_triangular(c: Call) -> Results:
    """torch.triangular_solve(b, A)"""
    a, upper = c.tensor("A"), bool(c.get("upper", True))
    if c.get("transpose", False):
        a, upper = turned(c, a), not upper
    unit = bool(c.get("unitriangular", False))
    out = _solve_triangular(c, a, c.tensor("self"), upper=upper, unit=unit)
    return [out, c.e.broadcast(c.tensor("A"), c.shape_of(1))]


def _rows(c: Call, x: Value, order: Value) -> Value:
    """Rows of each matrix of x in another order [..., m]."""
    index = c.e.broadcast(c.e.unsqueeze(order, -1), x.type.shape)
    return c.e.op("gather_elements", x, index, axis=x.type.rank - 2)


def _order(c: Call, pivots: Value, size: Dim) -> Value:
    return c.e.op("exchanges_to_order", c.e.cast(pivots, I32), size=size)


def _inverse_order(c: Call, order: Value) -> Value:
    axis = order.type.rank - 1
    line = c.e.op("iota", shape=order.type.shape, axis=axis, dtype=I64)
    zeros = c.e.broadcast(c.e.scalar(0, I64), order.type.shape)
    return c.e.op("scatter_elements", zeros, order, line, axis=axis)


def _with_factors(
    c: Call, lu: Value, pivots: Value, b: Value, left: bool, adjoint: bool
) -> Value:
    """x with P L U x = b, or with the transpose if ``adjoint``, or x P L U = b if not ``left``."""
    if not left:
        return turned(c, _with_factors(c, lu, pivots, turned(c, b), True, not adjoint))
    order = _order(c, pivots, lu.type.shape[-1])
    lu, b = _batch(c, lu, b)
    order = c.e.broadcast(order, (*lu.type.shape[:-2], order.type.shape[-1]))
    solve = _solve_triangular
    if not adjoint:
        half = solve(c, lu, _rows(c, b, order), upper=False, unit=True)
        return solve(c, lu, half, upper=True)
    half = solve(c, turned(c, lu), b, upper=False)
    half = solve(c, turned(c, lu), half, upper=True, unit=True)
    return _rows(c, half, _inverse_order(c, order))


def _valid(c: Call, out: Value, info: Value) -> Value:
    """NaN where the factorisation failed."""
    failed = c.e.reshape(info, (*info.type.shape, *(1,) * (out.type.rank - info.type.rank)))
    return Term(c.e, failed).equals(0).where(Term(c.e, out), float("nan")).value


def _factors(c: Call, a: Value, pivot: bool = True) -> list[Value]:
    return c.e.results("lu_factor", a, pivot=pivot)


def _lu_factor(c: Call) -> Results:
    return [*_factors(c, c.tensor("A"), bool(c.get("pivot", True)))][: len(c.metas)]


def _unpacked(c: Call, lu: Value, order: Value) -> list[Value]:
    """P, L and U"""
    m, n = lu.type.shape[-2:]
    k = c.e.simplify(minimum(m, n))
    rank = lu.type.rank
    low = c.e.slice(lu, rank - 1, 0, k)
    row, column = (c.e.op("iota", shape=(m, k), axis=i, dtype=I64) for i in (0, 1))
    low = triangle_of(c, low, -1, upper=False)
    low = c.e.map("add", low, c.e.cast(c.e.op("eq", row, column), lu.type.dtype))
    high = triangle_of(c, c.e.slice(lu, rank - 2, 0, k), 0, upper=True)
    place = c.e.op("iota", shape=(m, 1), axis=0, dtype=I64)
    swaps = c.e.map("eq", place, c.e.unsqueeze(order, -2))
    return [c.e.cast(swaps, lu.type.dtype), low, high]


def _lu(c: Call) -> Results:
    a = c.tensor("A")
    lu, pivots, _ = _factors(c, a, bool(c.get("pivot", True)))
    p, low, high = _unpacked(c, lu, _order(c, pivots, a.type.shape[-2]))
    if not c.get("pivot", True):
        p = c.e.broadcast(c.e.scalar(0, p.type.dtype), c.shape_of(0))
    return [p, low, high]


def _lu_unpack(c: Call) -> Results:
    lu, pivots = c.tensor("LU_data"), c.tensor("LU_pivots")
    parts = _unpacked(c, lu, _order(c, pivots, lu.type.shape[-2]))
    wanted = [c.get("unpack_pivots", True)] + [c.get("unpack_data", True)] * 2
    zero = c.e.scalar(0, lu.type.dtype)
    return [p if w else c.e.broadcast(zero, c.shape_of(i))
            for i, (p, w) in enumerate(zip(parts, wanted, strict=True))]  # fmt: skip


def _lu_solve(c: Call) -> Value:
    left, adjoint = bool(c.get("left", True)), bool(c.get("adjoint", False))
    return _with_factors(c, c.tensor("LU"), c.tensor("pivots"), c.tensor("B"), left, adjoint)


def _solve(c: Call) -> Results:
    """A x = B; B is a batch of vectors where its shape is that of A without the last dimension."""
    a, b, left = c.tensor("A"), c.tensor("B"), bool(c.get("left", True))
    vector = b.type.rank == 1 or (
        b.type.rank + 1 == a.type.rank and b.type.shape == a.type.shape[:-1]
    )
    lu, pivots, info = _factors(c, a)
    right = c.e.unsqueeze(b, -1) if vector else b
    out = _with_factors(c, lu, pivots, right, left or vector, False)
    out = _valid(c, out, c.e.broadcast(info, out.type.shape[:-2]))
    return [c.e.squeeze(out, [-1]) if vector else out, lu, pivots, info]


def _inverse(c: Call) -> Results:
    return [*_inverse_of(c, c.first)]


def _inverse_of(c: Call, a: Value) -> list[Value]:
    """The inverse, NaN for a singular matrix, and what lu_factor says of it."""
    lu, pivots, info = _factors(c, a)
    eye = c.e.broadcast(_eye(c, a.type.shape[-1], a.type.dtype), a.type.shape)
    return [_valid(c, _with_factors(c, lu, pivots, eye, True, False), info), info]


def _tensor_inverse(c: Call) -> Value:
    """The inverse of the map from the last dimensions to the first ``ind``."""
    a, at = c.first, int(c.number("ind"))
    shape = a.type.shape
    flat = c.e.reshape(a, (product(shape[:at]), product(shape[at:])))
    return c.e.reshape(_inverse_of(c, flat)[0], (*shape[at:], *shape[:at]))


def _diagonal(c: Call, x: Value) -> Value:
    """The diagonal of each square matrix."""
    size = x.type.shape[-1]
    rows = c.e.op("iota", shape=(*x.type.shape[:-2], 1, size), axis=x.type.rank - 1, dtype=I64)
    return c.e.squeeze(c.e.op("gather_elements", x, rows, axis=x.type.rank - 2), [-2])


def _parity(c: Call, pivots: Value, dtype: DType) -> Value:
    """The sign of the exchanges: -1 for an odd number of them."""
    last = pivots.type.rank - 1
    line = c.e.op("iota", shape=pivots.type.shape, axis=last, dtype=I32)
    moved = Term(c.e, pivots).map("ne", Term(c.e, line) + 1).cast(I64).value
    count = c.e.op("reduce_sum", moved, axes=(last,), keepdims=False)
    odd = Term(c.e, count).map("mod", 2).cast(dtype)
    return (1 - 2 * odd).value


def _det(c: Call) -> Results:
    a = c.tensor("A")
    lu, pivots, _ = _factors(c, a)
    diagonal = _diagonal(c, lu)
    out = c.e.op("reduce_prod", diagonal, axes=(diagonal.type.rank - 1,), keepdims=False)
    return [c.e.map("mul", out, _parity(c, pivots, a.type.dtype)), None, None]


def _slogdet(c: Call) -> Results:
    """The sign and the logarithm of the determinant's size; 0 and -inf for a singular matrix."""
    a = c.tensor("A")
    lu, pivots, _ = _factors(c, a)
    diagonal = _diagonal(c, lu)
    last = (diagonal.type.rank - 1,)
    sign = c.e.op("reduce_prod", sign_of(c, diagonal), axes=last, keepdims=False)
    sign = c.e.map("mul", sign, _parity(c, pivots, a.type.dtype))
    size = c.e.op("log", c.e.op("abs", diagonal))
    return [sign, c.e.op("reduce_sum", size, axes=last, keepdims=False), None, None]


def _cholesky_of(c: Call, a: Value, upper: bool) -> list[Value]:
    factor, info = c.e.results("cholesky", turned(c, a) if upper else a)
    return [turned(c, factor) if upper else factor, info]


def _cholesky_ex(c: Call) -> Results:
    return [*_cholesky_of(c, c.first, bool(c.get("upper", False)))]


def _cholesky(c: Call) -> Value:
    return _cholesky_of(c, c.first, bool(c.get("upper", False)))[0]


def _by_cholesky(c: Call, factor: Value, b: Value, upper: bool) -> Value:
    low = turned(c, factor) if upper else factor
    half = _solve_triangular(c, low, b, upper=False)
    return _solve_triangular(c, turned(c, low), half, upper=True)


def _cholesky_solve(c: Call) -> Value:
    return _by_cholesky(c, c.tensor("input2"), c.tensor("self"), bool(c.get("upper", False)))


def _cholesky_inverse(c: Call) -> Value:
    factor = c.first
    eye = c.e.broadcast(_eye(c, factor.type.shape[-1], factor.type.dtype), factor.type.shape)
    return _by_cholesky(c, factor, eye, bool(c.get("upper", False)))


def _qr(c: Call) -> Results:
    a, mode = c.tensor("A"), c.get("mode", "reduced")
    m, n = a.type.shape[-2:]
    k = c.e.simplify(minimum(m, n))
    packed, tau = c.e.results("qr_factor", a)
    rows = m if mode == "complete" else k
    rank = a.type.rank
    r = triangle_of(c, c.e.slice(packed, rank - 2, 0, rows), 0, upper=True)
    if mode == "r":
        return [c.e.broadcast(c.e.scalar(0, a.type.dtype), c.shape_of(0)), r]
    columns = c.e.slice(packed, rank - 1, 0, k)
    wanted = m if mode == "complete" else k
    if wanted != k:
        hi = (0,) * (rank - 1) + (add(wanted, mul(k, -1)),)
        columns = c.e.op("pad", columns, lo=(0,) * rank, hi=hi)
    return [c.e.op("householder_product", columns, tau), r]


def _geqrf(c: Call) -> Results:
    return [*c.e.results("qr_factor", c.first)]


def _householder(c: Call) -> Value:
    packed, tau = list(c.args.values())[:2]
    return c.e.op("householder_product", packed, tau)


def _ormqr(c: Call) -> Value:
    """Q or its transpose times ``other``, from the left or the right; Q whole, from reflectors
    padded to a square."""
    e, packed, tau, other = c.e, c.tensor("self"), c.tensor("input2"), c.tensor("input3")
    m, k = packed.type.shape[-2:]
    lead = [0] * (packed.type.rank - 2)
    gap = add(m, mul(k, -1))
    square = e.op("pad", packed, lo=(*lead, 0, 0), hi=(*lead, 0, gap), mode="constant", value=0.0)
    scales = e.op("pad", tau, lo=(*lead, 0), hi=(*lead, add(m, mul(tau.type.shape[-1], -1))),
                  mode="constant", value=0.0)  # fmt: skip
    q = e.op("householder_product", square, scales)
    if c.get("transpose", False):
        q = turned(c, q)
    left = bool(c.get("left", True))
    return e.op("matmul", q, other) if left else e.op("matmul", other, q)


def _eigh(c: Call) -> Results:
    a = c.tensor("A")
    a = a if str(c.get("UPLO", "L")).upper() == "L" else turned(c, a)
    values, vectors = c.e.results("eigh", a)
    return [values, vectors if c.get("compute_v", True) else None]


def _ldl_factor(c: Call) -> Results:
    return [*c.e.results("ldl_factor", c.first)][: len(c.metas)]


def _ldl_solve(c: Call) -> Value:
    ld, b = _batch(c, c.tensor("LD"), c.tensor("B"))
    pivots = c.e.cast(c.tensor("pivots"), I32)
    return c.e.op("ldl_solve", ld, c.e.broadcast(pivots, ld.type.shape[:-1]), b)


def _any_order(c: Call) -> Value:
    raise Refused("the order of the eigenvalues of a matrix that need not be symmetric is not "
                  "determined; use torch.linalg.eigh for symmetric ones")  # fmt: skip


RULES: dict[str, Rule] = {
    **dict.fromkeys(("linalg_eig", "linalg_eigvals", "_linalg_eigvals"), _any_order),
    "linalg_ldl_factor_ex": _ldl_factor, "linalg_ldl_factor": _ldl_factor,
    "linalg_ldl_solve": _ldl_solve,
    "linalg_solve_triangular": _rule_solve_triangular,
    "triangular_solve": _legacy_solve_triangular,
    "linalg_solve": lambda c: _solve(c)[0], "linalg_inv": lambda c: _inverse(c)[0],
    "linalg_tensorinv": _tensor_inverse,
    "inverse": lambda c: _inverse(c)[0], "linalg_cholesky": _cholesky,
    "linalg_lu_factor_ex": _lu_factor, "linalg_lu_factor": _lu_factor,
    "linalg_lu": _lu, "lu_unpack": _lu_unpack, "linalg_lu_solve": _lu_solve,
    "_linalg_solve_ex": _solve, "linalg_inv_ex": _inverse,
    "_linalg_det": _det, "_linalg_slogdet": _slogdet,
    "linalg_cholesky_ex": _cholesky_ex, "cholesky": _cholesky,
    "cholesky_solve": _cholesky_solve, "cholesky_inverse": _cholesky_inverse,
    "linalg_qr": _qr, "geqrf": _geqrf,
    "linalg_householder_product": _householder, "orgqr": _householder,
    "ormqr": _ormqr,
    "_linalg_eigh": _eigh,
    "linalg_matrix_exp": lambda c: c.e.op("matrix_exp", c.first),
    "matrix_exp": lambda c: c.e.op("matrix_exp", c.first),
}  # fmt: skip
