"""Products of matrices: MatMul, Gemm, Einsum."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.einsum import einsum
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.onnx.table_elementwise import old_broadcast
from cuvil.ir.core import Value
from cuvil.ir.types import I32


def matmul(n: Node, a: Value, b: Value) -> Value:
    """numpy.matmul: vectors gain and lose a dim, batch dims broadcast."""
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
    out = e.op("matmul", a, b)
    shape = list(out.type.shape)
    if row:
        del shape[-2]
    if column:
        del shape[-1]
    return e.reshape(out, shape)


def _matmul(n: Node) -> Value:
    return matmul(n, n[0], n[1])


def _gemm(n: Node) -> Value:
    """alpha * A' * B' + beta * C (Gemm-13)."""
    e = n.e
    a, b = n[0], n[1]
    trans_a, trans_b = bool(n.integer("transA", 0)), bool(n.integer("transB", 0))
    if a.type.rank != 2 or b.type.rank != 2:
        raise InvalidModelError(f"Gemm needs matrices, got {a.type} and {b.type}")
    out = e.op("matmul", a, b, trans_a=trans_a or None, trans_b=trans_b or None)
    alpha, beta = n.number("alpha", 1.0), n.number("beta", 1.0)
    if alpha != 1.0:
        out = e.with_scalar("mul", out, alpha)
    if not n.has(2):
        return out
    c = n[2] if n.version >= 7 else old_broadcast(n, out, n[2])
    if beta != 1.0:
        c = e.with_scalar("mul", c, beta)
    return e.op("add", out, e.broadcast(c, out.type.shape))


def _einsum(n: Node) -> Value:
    return einsum(n.e, n.text("equation"), n.values())


def _integer_matmul(n: Node) -> Value:
    """(A - a_zero) (B - b_zero) in i32; zero points per row of A, per column of B."""
    e = n.e
    a, b = e.cast(n[0], I32), e.cast(n[1], I32)
    if n.has(2):
        zero = e.cast(n[2], I32)
        a = e.map("sub", a, e.unsqueeze(zero, -1) if zero.type.rank else zero)
    if n.has(3):
        zero = e.cast(n[3], I32)
        b = e.map("sub", b, e.unsqueeze(zero, -2) if zero.type.rank > 1 else zero)
    return matmul(n, a, b)


TABLE: dict[str, Handler] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "MatMulInteger": _integer_matmul,
}
