"""Pooling over regions: one call each."""

from __future__ import annotations

from cuvil.codegen.kernel import Kernel, storage
from cuvil.codegen.native_call import NativeCall, flag
from cuvil.ir.core import Op
from cuvil.sym.facts import Facts
from cuvil.target.base import Target


def _region(op: Op, facts: Facts) -> NativeCall:
    call = NativeCall(op, facts)
    x = op.operands[0].type
    call.line(f"cuvil::RegionArgs<{x.dtype.cxx}> args = {{}};")
    call.set("count", op.operands[1].type.shape[0])
    for name, dim in zip(("images", "channels", "in_height", "in_width"), x.shape):
        call.set(name, dim)
    call.set("height", op.attrs["height"])
    call.set("width", op.attrs["width"])
    call.set("scale", repr(float(op.attrs["scale"])))
    call.set("x", call.input(0))
    call.set("regions", call.input(1))
    call.set("out", call.outputs[0])
    call.set("fault", call.fault())
    call.set("pool", "rc.pool")
    return call


def roi_align(op: Op, facts: Facts, target: Target) -> Kernel:
    """roi_align (native/region.hpp)"""
    call = _region(op, facts)
    types = f"<{op.operands[0].type.dtype.cxx}, {storage(op.operands[2].type.dtype)}>"
    return call.finish(
        "region.hpp",
        f"cuvil::roi_align{types}(args, {call.input(2)}, {op.attrs['sampling_ratio']}, "
        f"{flag(op.attrs['half_pixel'])}, {flag(op.attrs['mode'] == 'max')});",
    )


def roi_max_pool(op: Op, facts: Facts, target: Target) -> Kernel:
    """roi_max_pool (native/region.hpp)"""
    return _region(op, facts).finish("region.hpp", "cuvil::roi_max_pool(args);")
