"""Pooling: f32 with channels last by the native kernel, everything else by plain loops."""

from __future__ import annotations

from cuvil.codegen.kernel import Kernel
from cuvil.codegen.native_call import NativeCall, flag
from cuvil.ir.core import Op
from cuvil.ir.types import F32
from cuvil.ops.windows import spatial_dims
from cuvil.sym.expr import Dim
from cuvil.sym.facts import Facts
from cuvil.target.base import Target


def _axes(call: NativeCall, op: Op) -> None:
    """Depth, height, width; axes that the operator does not have are of size 1."""
    last = bool(op.attrs.get("channels_last"))
    shape = op.operands[0].type.shape
    sizes = spatial_dims(shape, last)
    counts = spatial_dims(op.results[0].type.shape, last)
    call.set("n", shape[0])
    call.set("c", shape[-1 if last else 1])
    missing = 3 - len(sizes)
    for axis in range(3):
        values: list[Dim] = [1, 1, 1, 1, 1, 0, 0]
        if axis >= missing:
            i = axis - missing
            values = [sizes[i], counts[i]]
            values += [op.attrs[k][i] for k in ("kernel", "strides", "dilations")]
            values += [op.attrs[k][i] for k in ("pads_lo", "pads_hi")]
        call.set(f"axes[{axis}]", call.dims(values))
    call.set("pool", "rc.pool")


def pool(op: Op, facts: Facts, target: Target) -> Kernel:
    """max_pool, avg_pool, max_pool_indices"""
    call = NativeCall(op, facts)
    dtype, last = op.operands[0].type.dtype, bool(op.attrs.get("channels_last"))
    counted = flag(op.attrs.get("count_include_pad"))
    if dtype == F32 and last and op.short != "max_pool_indices":
        call.line("cuvil::PoolingArgs args = {};")
        _axes(call, op)
        call.set("count_include_pad", counted)
        call.set("x", call.input(0))
        call.set("y", call.outputs[0])
        name = "max_pool_f32" if op.short == "max_pool" else "average_pool_f32"
        return call.finish("pool.hpp", f"cuvil::{name}(args);")
    call.line(f"cuvil::AnyPoolArgs<{dtype.cxx}> args = {{}};")
    _axes(call, op)
    call.set("channels_last", flag(last))
    call.set("count_include_pad", counted)
    call.set("x", call.input(0))
    name = {"max_pool": "max_pool_any", "avg_pool": "average_pool_any"}.get(op.short, op.short)
    return call.finish("pool_any.hpp", f"cuvil::{name}(args, {call.outputs[0]});")
