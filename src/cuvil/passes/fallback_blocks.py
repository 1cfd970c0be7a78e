"""Products with weights in blocks that no kernel takes: by type, or known only at run time.

In: matmul_blocks of any float. Out: those with a kernel, and plain products.
"""

from __future__ import annotations

import numpy as np

from cuvil.analysis.contraction_views import has_kernel
from cuvil.ir.core import Op, Value, Weight
from cuvil.ir.types import BF16, F16
from cuvil.passes.decompose import Writer
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule


@rule("unpack-blocks", "matmul_blocks")
def unpack_blocks(op: Op, context: Context) -> Outcome:
    """matmul_blocks(x, codes, scales, zeros) -> matmul(x, ((codes - zeros) * scales)^T)"""
    if has_kernel(op):
        return Refusal("it has a kernel")
    if op.type.dtype in (F16, BF16):
        return Refusal("it is computed in f32")
    bits, size, inner = (op.attrs[name] for name in ("bits", "size", "inner"))
    dtype = op.type.dtype

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        codes = op.operands[1]
        rows, blocks, _ = codes.type.shape
        if bits < 8:
            shifts = Weight((np.arange(8 // bits) * bits).astype(np.uint8))
            apart = w.reshape(codes, (*codes.type.shape, 1))
            apart = w("shr", apart, rw.value("constant", value=shifts))
            codes = w("and", apart, w.number((1 << bits) - 1, codes.type.dtype))
        real = w.cast(w.reshape(codes, (rows, blocks, size)), dtype)
        columns = [w.reshape(w.cast(v, dtype), (rows, blocks, 1)) for v in op.operands[2:]]
        zero = columns[1] if len(columns) > 1 else w.number(op.attrs["zero"], dtype)
        real = w("mul", w("sub", real, zero), columns[0])
        whole = w.reshape(real, (rows, blocks * size))
        part = rw.value("slice", [whole], start=(0, 0), size=(rows, inner), step=(1, 1))
        return [rw.value("matmul", [op.operands[0], part], trans_b=True)]

    return action


RULES: list[Rule] = [unpack_blocks]
