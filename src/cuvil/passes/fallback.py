"""Operators whose element type has no kernel are written with operators that have one.

In: canonical IR before decomposition. Out: no 16-bit float reaches a kernel that stands alone or a
contraction; products of other types are maps and reductions; see fallback_conv.py for windows.
"""

from __future__ import annotations

from cuvil.ir.core import Op, Value
from cuvil.ir.types import BF16, F16, F32
from cuvil.passes.decompose import Writer
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule

_SHORT = (F16, BF16)


def _moves_only(op: Op) -> bool:
    """Whether elements are copied and never combined, so that any type will do."""
    if op.short == "resize":
        return bool(op.attrs["mode"] == "nearest")
    return op.short.startswith("scatter") and op.attrs.get("reduction", "none") == "none"


@rule(
    "compute-in-f32", "matmul", "conv", "conv_transpose", "attention", "max_pool",
    "max_pool_indices", "avg_pool", "lstm", "gru", "rnn", "resize", "cumsum", "topk",
    "scatter_elements", "scatter_nd",
)  # fmt: skip
def compute_in_f32(op: Op, context: Context) -> Outcome:
    """op(x) -> cast(op(cast(x, f32)), f16), for f16 and bf16, which accumulate in f32"""
    if not any(v.type.dtype in _SHORT for v in op.operands):
        return Refusal("no operand is a 16-bit float")
    if _moves_only(op):
        return Refusal("it only moves elements")

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        operands = [w.cast(v, F32) if v.type.dtype in _SHORT else v for v in op.operands]
        attrs = {k: v for k, v in op.attrs.items() if k != "out"}
        made = rw.op(op.name, operands, attrs)
        return [w.cast(a, b.type.dtype) for a, b in zip(made.results, op.results, strict=True)]

    return action


RULES: list[Rule] = [compute_in_f32]
