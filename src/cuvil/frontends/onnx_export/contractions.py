"""Matrix products and attention."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cuvil.frontends.onnx_export.maps import Writer
from cuvil.frontends.onnx_export.movement import count_up
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.ir.core import Op, Value
from cuvil.ir.types import BF16, BOOL, F16, F32, I8, I32, I64, U8, DType
from cuvil.sym.expr import Dim, floordiv


def product_type(operand: DType, result: DType) -> DType:
    """What a product is computed in: floats of 16 bits in f32 where they give that, or where
    runtimes have no kernel; integers in one that wraps as the result does."""
    if operand.is_float:
        return F32 if operand == BF16 or result != operand else operand
    return I32 if result.size <= 4 and result.name != "u32" else I64


def _turned(scope: Scope, name: str, rank: int) -> str:
    return scope.node("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])


def _matmul(scope: Scope, op: Op) -> list[str]:
    a, b = op.operands
    turn_a, turn_b = bool(op.attrs.get("trans_a")), bool(op.attrs.get("trans_b"))
    result = op.type.dtype
    whole = {a.type.dtype, b.type.dtype} <= {I8, U8} and result.size >= 4
    dtype = I32 if whole else product_type(a.type.dtype, result)
    names = [scope.name(v) if whole else scope.cast(scope.name(v), v.type.dtype, dtype)
             for v in (a, b)]  # fmt: skip
    if a.type.rank == b.type.rank == 2 and dtype.is_float and (turn_a or turn_b):
        made = scope.node("Gemm", *names, transA=int(turn_a), transB=int(turn_b))
        return [scope.cast(made, dtype, result)]
    if turn_a:
        names[0] = _turned(scope, names[0], a.type.rank)
    if turn_b:
        names[1] = _turned(scope, names[1], b.type.rank)
    made = scope.node("MatMulInteger" if whole else "MatMul", *names)
    return [scope.cast(made, dtype, result)]


def _spread_heads(scope: Scope, value: Value, name: str, heads: Dim) -> str:
    """Each shared head as often as heads of the queries read it."""
    batch, shared, length, size = value.type.shape
    if shared == heads:
        return name
    column = scope.node("Unsqueeze", name, scope.ints([2]))
    wide = (batch, shared, floordiv(heads, shared), length, size)
    repeated = scope.node("Expand", column, scope.shape(wide))
    return scope.node("Reshape", repeated, scope.shape((batch, heads, length, size)), allowzero=1)


def _masked(scope: Scope, op: Op, scores: str, dtype: DType) -> str:
    hidden = scope.number(-math.inf, dtype)
    if op.attrs["has_mask"]:
        mask = op.operands[3]
        name = scope.name(mask)
        if mask.type.dtype == BOOL:
            scores = scope.node("Where", name, scores, hidden)
        else:
            scores = scope.node("Add", scores, scope.cast(name, mask.type.dtype, dtype))
    if op.attrs["causal"]:
        queries, keys = op.operands[0].type.shape[2], op.operands[1].type.shape[2]
        row = scope.node("Unsqueeze", count_up(scope, queries), scope.ints([1]))
        last = scope.node("Add", row, scope.dim(op.attrs.get("causal_offset", 0)))
        seen = scope.node("LessOrEqual", count_up(scope, keys), last)
        scores = scope.node("Where", seen, scores, hidden)
    return scores


def _attention(scope: Scope, op: Op) -> list[str]:
    """softmax(q k^T scale + mask) v; zeros where no key is visible, unless NaN is asked for."""
    source = op.type.dtype
    dtype = F32 if source in (BF16, F16) else source
    q, k, v = (scope.cast(scope.name(x), source, dtype) for x in op.operands[:3])
    heads = op.operands[0].type.shape[1]
    k = _spread_heads(scope, op.operands[1], k, heads)
    v = _spread_heads(scope, op.operands[2], v, heads)
    scores = scope.node("MatMul", q, scope.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = scope.node("Mul", scores, scope.number(op.attrs["scale"], dtype))
    scores = _masked(scope, op, scores, dtype)
    weights = scope.node("Softmax", scores, axis=-1)
    zero = scope.number(0, dtype)
    if (op.attrs["has_mask"] or op.attrs["causal"]) and not op.attrs.get("nan_rows"):
        best = scope.node("ReduceMax", scores, scope.ints([3]), keepdims=1)
        none = scope.node("Equal", best, scope.number(-math.inf, dtype))
        weights = scope.node("Where", none, zero, weights)
    if op.attrs.get("zero_nan_rows"):
        weights = scope.node("Where", scope.node("IsNaN", weights), zero, weights)
    out = scope.node("MatMul", weights, v)
    if op.attrs.get("heads_inner"):
        out = scope.node("Transpose", out, perm=[0, 2, 1, 3])
    return [scope.cast(out, dtype, source)]


def _codes(scope: Scope, op: Op) -> str:
    """The weights' codes [N, blocks, size], each byte's elements from the low bits up."""
    bits, size = op.attrs["bits"], op.attrs["size"]
    codes = op.operands[1]
    name = scope.name(codes)
    if bits == 8:
        return name
    mask = scope.number((1 << bits) - 1, U8)
    parts = []
    for place in range(8 // bits):
        moved = scope.node("BitShift", name, scope.number(place * bits, U8), direction="RIGHT")
        part = scope.node("BitwiseAnd", moved, mask)
        parts.append(scope.node("Unsqueeze", part, scope.ints([3])))
    apart = scope.node("Concat", *parts, axis=3)
    return scope.node("Reshape", apart, scope.ints([0, 0, size]))


def _matmul_blocks(scope: Scope, op: Op) -> list[str]:
    x, codes, scales, *rest = op.operands
    dtype = F32 if x.type.dtype in (BF16, F16) else x.type.dtype
    real = scope.cast(_codes(scope, op), U8, dtype)
    last = scope.ints([2])
    zero = scope.number(op.attrs.get("zero") or 0.0, dtype)
    if rest:
        zero = scope.node("Unsqueeze", scope.cast(scope.name(rest[0]), F32, dtype), last)
    factor = scope.node("Unsqueeze", scope.cast(scope.name(scales), F32, dtype), last)
    weights = scope.node("Mul", scope.node("Sub", real, zero), factor)
    rows = scope.node("Reshape", weights, scope.shape([codes.type.shape[0], -1]))
    inner = op.attrs["inner"]
    if inner != codes.type.shape[1] * op.attrs["size"]:
        rows = scope.node("Slice", rows, scope.ints([0]), scope.ints([inner]), scope.ints([1]))
    made = scope.node("MatMul", scope.cast(scope.name(x), x.type.dtype, dtype),
                      scope.node("Transpose", rows, perm=[1, 0]))  # fmt: skip
    return [scope.cast(made, dtype, x.type.dtype)]


WRITERS: Mapping[str, Writer] = {
    "matmul": _matmul,
    "attention": _attention,
    "matmul_blocks": _matmul_blocks,
}
