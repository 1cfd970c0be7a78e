"""Products of matrices: MatMul, Gemm, Einsum."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.einsum import einsum
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.table_elementwise import old_broadcast
from cuvil.ir.core import Value
from cuvil.ir.types import F64, DType


def matmul(n: Node, a: Value, b: Value, out: DType | None = None) -> Value:
    """numpy.matmul: vectors gain and lose a dim, batch dims broadcast; summed up in ``out``."""
    e = n.e
    if not a.type.rank or not b.type.rank:
        raise InvalidModelError(f"{n.op} needs tensors of rank 1 or more: {a.type}, {b.type}")
    row, column = a.type.rank == 1, b.type.rank == 1
    a = e.unsqueeze(a, 0) if row else a
    b = e.unsqueeze(b, 1) if column else b
    if a.type.rank > 2 and b.type.rank > 2:
        batch = e.context.broadcast([a.type.shape[:-2], b.type.shape[:-2]], f"{n.op}: batch")
        a = e.broadcast(a, (*batch, *a.type.shape[-2:]))
        b = e.broadcast(b, (*batch, *b.type.shape[-2:]))
    product = e.op("matmul", a, b, out=out)
    shape = list(product.type.shape)
    if row:
        del shape[-2]
    if column:
        del shape[-1]
    return e.reshape(product, shape)


def _matmul(n: Node) -> Value:
    return matmul(n, n[0], n[1])


def gemm(n: Node) -> Value:
    """alpha * A' * B' + beta * C (Gemm-13). C isn't read where beta is 0, as ONNX's reference has
    it: what is no number in it stays out."""
    e = n.e
    a, b = n[0], n[1]
    trans_a, trans_b = bool(n.integer("transA", 0)), bool(n.integer("transB", 0))
    if a.type.rank != 2 or b.type.rank != 2:
        raise InvalidModelError(f"Gemm needs matrices, got {a.type} and {b.type}")
    out = e.op("matmul", a, b, trans_a=trans_a or None, trans_b=trans_b or None)
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    kind = out.type.dtype
    if not kind.is_float and not (alpha.is_integer() and beta.is_integer()):
        out = e.cast(out, F64)  # integers are scaled as floats, and truncated at the end
    if alpha != 1.0:
        out = e.with_scalar("mul", out, alpha)
    if not n.has(2) or beta == 0.0:
        return e.cast(out, kind)
    c = n[2] if n.version >= 7 else old_broadcast(n, out, n[2])
    c = e.cast(c, out.type.dtype)
    if beta != 1.0:
        c = e.with_scalar("mul", c, beta)
    return e.cast(e.op("add", out, e.broadcast(c, out.type.shape)), kind)


def _einsum(n: Node) -> Value:
    return einsum(n.e, n.text("equation"), n.values())


TABLE: dict[str, Handler] = {
    "MatMul": _matmul,
    "Gemm": gemm,
    "Einsum": _einsum,
}
