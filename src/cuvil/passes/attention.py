"""Attention written out with matrix products and a softmax is recognised as one operator."""

from __future__ import annotations

import math

from cuvil.ir.core import Op, Value
from cuvil.ir.types import F32
from cuvil.passes.matching import constant_of, defined_by, scalar_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule


def _scores(value: Value) -> tuple[Op, float, Value | None] | None:
    """(product of q and k, scale, additive mask) behind the operand of a softmax."""
    mask: Value | None = None
    scale = 1.0
    while True:
        op = value.op
        if op is None or value.only_user is None:
            return None
        if op.short == "add" and mask is None and scale == 1.0:
            for inner, other in (op.operands, op.operands[::-1]):
                if inner.op is not None and inner.op.short in ("matmul", "mul", "div"):
                    value, mask = inner, other
                    break
            else:
                return None
        elif op.short in ("mul", "div"):
            number = scalar_of(op.operands[1])
            inner = op.operands[0]
            if number is None and op.short == "mul":
                number, inner = scalar_of(op.operands[0]), op.operands[1]
            if number is None or number == 0:
                return None
            scale = scale * number if op.short == "mul" else scale / number
            value = inner
        elif op.short == "matmul":
            return op, scale, mask
        else:
            return None


def _weights(value: Value) -> tuple[Op | None, bool]:
    """The softmax behind ``value``, and whether select(isnan(p), 0, p) stands between: what torch
    exports for rows that the mask hides whole."""
    softmax = defined_by(value, "softmax")
    if softmax is not None:
        return softmax, False
    select = defined_by(value, "select")
    if select is None or value.only_user is None or scalar_of(select.operands[1]) != 0:
        return None, False
    softmax = defined_by(select.operands[2], "softmax")
    check = defined_by(select.operands[0], "isnan")
    if softmax is None or check is None or check.operands[0] is not softmax.result:
        return None, False
    alone = {id(u) for u in softmax.result.users} == {id(select), id(check)}
    return (softmax, True) if alone and check.result.only_user is select else (None, False)


@rule("recognise-attention", "matmul")
def recognise_attention(op: Op, context: Context) -> Outcome:
    """matmul(softmax(matmul(q, k^T) * s + mask), v) -> attention(q, k, v, mask), where a row that
    the mask hides whole stays NaN"""
    softmax, zeroed = _weights(op.operands[0])
    if softmax is None or op.type.dtype != F32:
        return Refusal("the left operand is no softmax of f32")
    if op.attrs.get("trans_a") or op.attrs.get("trans_b") or op.type.rank not in (3, 4):
        return Refusal("the product with v is transposed or not of rank 3 or 4")
    if softmax.attrs["axis"] % softmax.type.rank != softmax.type.rank - 1:
        return Refusal("the softmax is not over the last dimension")
    if not zeroed and softmax.result.only_user is not op:
        return Refusal("the probabilities have another user")
    found = _scores(softmax.operands[0])
    if found is None:
        return Refusal("the scores are not a scaled product plus at most one mask")
    product, scale, mask = found
    q, k, v = product.operands[0], product.operands[1], op.operands[1]
    if product.attrs.get("trans_a"):
        return Refusal("q is transposed")
    if not math.isfinite(scale) or scale == 0:
        return Refusal("the scale is not a finite number other than 0")
    if constant_of(k) is not None or constant_of(v) is not None:
        return Refusal("k or v is constant")
    if not (q.type.rank == k.type.rank == v.type.rank == op.type.rank):
        return Refusal("q, k and v differ in rank")
    return lambda rw: _build(op, product, q, k, v, mask, scale, zeroed, rw)


def _build(
    op: Op, product: Op, q: Value, k: Value, v: Value,
    mask: Value | None, scale: float, zeroed: bool, rw: Rewriter,
) -> list[Value]:  # fmt: skip
    if not product.attrs.get("trans_b"):
        rank = k.type.rank
        perm = (*range(rank - 2), rank - 1, rank - 2)
        k = rw.value("transpose", [k], perm=perm)
    operands = [q, k, v]
    if mask is not None:
        operands.append(mask)
    if op.type.rank == 3:
        operands = [rw.value("reshape", [x], shape=_with_head(x)) for x in operands]
    masked = mask is not None
    attrs = {
        "scale": scale, "causal": False, "has_mask": masked,
        "nan_rows": True, "zero_nan_rows": zeroed or None,
    }  # fmt: skip
    out = rw.op("attention", operands, attrs).result
    if out.type.shape != op.type.shape:
        out = rw.value("reshape", [out], shape=op.type.shape)
    return [out]


def _with_head(value: Value) -> tuple[object, ...]:
    shape = value.type.shape
    return (shape[0], 1, *shape[1:])


RULES: list[Rule] = [recognise_attention]


@rule("heads-inside", "transpose")
def heads_inside(op: Op, context: Context) -> Outcome:
    """transpose(attention(q, k, v), rows before heads) -> attention that writes it so"""
    inner = defined_by(op.operands[0], "attention")
    if inner is None or tuple(op.attrs["perm"]) != (0, 2, 1, 3):
        return Refusal("it is no exchange of heads and rows of an attention")
    if inner.attrs.get("heads_inner") or inner.result.only_user is not op:
        return Refusal("the attention has another user")
    attrs = {**inner.attrs, "heads_inner": True}
    return lambda rw: [rw.op("attention", inner.operands, attrs).result]


OUTPUT_RULES: list[Rule] = [heads_inside]
