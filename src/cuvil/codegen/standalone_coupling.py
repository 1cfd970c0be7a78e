"""Probabilities of classes from those of pairs."""

from __future__ import annotations

from cuvil.codegen.kernel import THREADS, Kernel
from cuvil.codegen.native_call import NativeCall
from cuvil.ir.core import Op
from cuvil.sym.expr import mul, symbol
from cuvil.sym.facts import Facts
from cuvil.target.base import Target


def couple_pairs(op: Op, facts: Facts, target: Target) -> Kernel:
    """couple_pairs (native/coupling.hpp)"""
    call = NativeCall(op, facts)
    k = op.attrs["classes"]
    scratch = call.scratch(mul(symbol(THREADS), 8 * (k * k + 2 * k)))
    rows = call.text(op.type.shape[0])
    return call.finish(
        "coupling.hpp",
        f"cuvil::couple_pairs<{op.type.dtype.cxx}>({call.input(0)}, {call.outputs[0]}, {rows}, "
        f"{k}, {scratch}, rc.pool);",
    )
