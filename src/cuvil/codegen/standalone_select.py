"""Selecting: which elements a mask picks."""

from __future__ import annotations

from cuvil.codegen.kernel import Kernel
from cuvil.codegen.native_call import NativeCall
from cuvil.ir.core import Op
from cuvil.sym.facts import Facts
from cuvil.target.base import Target


def positions(op: Op, facts: Facts, target: Target) -> Kernel:
    """positions (native/select.hpp)"""
    call = NativeCall(op, facts)
    count = call.text(op.operands[0].type.elements)
    return call.finish(
        "select.hpp",
        f"cuvil::positions({call.input(0)}, {count}, {call.outputs[0]}, "
        f"{call.text(op.attrs['size'])});",
    )
