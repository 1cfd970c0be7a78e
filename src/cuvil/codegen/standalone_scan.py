"""Running sums."""

from __future__ import annotations

from cuvil.codegen.kernel import Kernel
from cuvil.codegen.native_call import NativeCall, flag, split_axis
from cuvil.ir.core import Op
from cuvil.sym.facts import Facts
from cuvil.target.base import Target


def cumsum(op: Op, facts: Facts, target: Target) -> Kernel:
    """cumsum of any number type (native/scan.hpp)"""
    call = NativeCall(op, facts)
    outer, size, inner = map(call.text, split_axis(op.type.shape, op.attrs["axis"]))
    element = op.type.dtype.cxx
    return call.finish(
        "scan.hpp",
        f"cuvil::cumsum<{element}>({call.input(0)}, {call.outputs[0]}, {outer}, {size}, {inner}, "
        f"{flag(op.attrs.get('exclusive'))}, {flag(op.attrs.get('reverse'))}, rc.pool);",
    )
