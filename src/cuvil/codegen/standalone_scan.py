"""Running sums, products, extremes and log-sums (native/scan.hpp)."""

from __future__ import annotations

from cuvil.codegen.kernel import Kernel, storage
from cuvil.codegen.native_call import NativeCall, flag, split_axis
from cuvil.ir.core import Op
from cuvil.sym.facts import Facts
from cuvil.target.base import Target


def _sizes(call: NativeCall, op: Op) -> str:
    return ", ".join(map(call.text, split_axis(op.operands[0].type.shape, op.attrs["axis"])))


def cumsum(op: Op, facts: Facts, target: Target) -> Kernel:
    """cumsum and cumprod of any number type"""
    call = NativeCall(op, facts)
    element = op.type.dtype.cxx
    return call.finish(
        "scan.hpp",
        f"cuvil::{op.short}<{element}>({call.input(0)}, {call.outputs[0]}, {_sizes(call, op)}, "
        f"{flag(op.attrs.get('exclusive'))}, {flag(op.attrs.get('reverse'))}, rc.pool);",
    )


def extreme(op: Op, facts: Facts, target: Target) -> Kernel:
    """cummax and cummin of any type but 16-bit floats"""
    call = NativeCall(op, facts)
    element = storage(op.operands[0].type.dtype)
    return call.finish(
        "scan.hpp",
        f"cuvil::running_extreme<{element}, {flag(op.short == 'cummax')}>({call.input(0)}, "
        f"{call.outputs[0]}, {call.outputs[1]}, {_sizes(call, op)}, rc.pool);",
    )


def logcumsumexp(op: Op, facts: Facts, target: Target) -> Kernel:
    """logcumsumexp of f32 and f64"""
    call = NativeCall(op, facts)
    return call.finish(
        "scan.hpp",
        f"cuvil::logcumsumexp<{op.type.dtype.cxx}>({call.input(0)}, {call.outputs[0]}, "
        f"{_sizes(call, op)}, rc.pool);",
    )
