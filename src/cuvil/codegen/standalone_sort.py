"""Order: topk, of which a sort is the case of all elements."""

from __future__ import annotations

from cuvil.codegen.kernel import THREADS, Kernel, storage
from cuvil.codegen.native_call import NativeCall, flag, split_axis
from cuvil.ir.core import Op
from cuvil.sym.expr import mul, symbol
from cuvil.sym.facts import Facts
from cuvil.target.base import Target


def topk(op: Op, facts: Facts, target: Target) -> Kernel:
    """topk of any type but 16-bit floats (native/topk.hpp)"""
    call = NativeCall(op, facts)
    x = op.operands[0].type
    split = split_axis(x.shape, op.attrs["axis"])
    outer, size, inner = map(call.text, split)
    item = 16 if x.dtype.size == 8 else 8
    scratch = call.scratch(mul(mul(split[1], item), symbol(THREADS)))
    return call.finish(
        "topk.hpp",
        f"cuvil::topk<{storage(x.dtype)}>({call.input(0)}, {call.outputs[0]}, {call.outputs[1]}, "
        f"{outer}, {size}, {inner}, {call.text(op.attrs['k'])}, {flag(op.attrs['largest'])}, "
        f"{scratch}, rc.pool);",
    )
