"""Selecting: which elements a mask picks, which order rows have, which boxes stay."""

from __future__ import annotations

from cuvil.codegen.kernel import THREADS, Kernel, storage
from cuvil.codegen.native_call import NativeCall, flag
from cuvil.ir.core import Op
from cuvil.sym.expr import add, mul, symbol
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


def row_order(op: Op, facts: Facts, target: Target) -> Kernel:
    """row_order of any type but 16-bit floats (native/order.hpp)"""
    call = NativeCall(op, facts)
    x = op.operands[0].type
    rows, width = map(call.text, x.shape)
    scratch = call.scratch(mul(x.shape[0], 24))
    return call.finish(
        "order.hpp",
        f"cuvil::row_order<{storage(x.dtype)}>({call.input(0)}, {rows}, {width}, "
        f"{call.outputs[0]}, {scratch});",
    )


def nms(op: Op, facts: Facts, target: Target) -> Kernel:
    """nms (native/nms.hpp)"""
    call = NativeCall(op, facts)
    scores = op.operands[1].type.shape
    call.line("cuvil::NmsArgs args = {};")
    for name, dim in zip(("batches", "classes", "count"), scores, strict=True):
        call.set(name, dim)
    call.set("limit", op.attrs["limit"])
    for at, name in enumerate(("boxes", "scores")):
        call.set(name, call.input(at))
    for at, name in enumerate(("most", "iou", "low"), 2):
        call.set(name, f"{call.input(at)}[0]")
    call.set("has_low", flag(op.attrs.get("has_low")))
    call.set("center", flag(op.attrs.get("center")))
    for name, pointer in zip(("picked", "found"), call.outputs, strict=True):
        call.set(name, pointer)
    size = mul(add(mul(scores[2], 32), 320), symbol(THREADS))  # native nms_scratch_bytes
    call.set("scratch", call.scratch(size))
    return call.finish("nms.hpp", "cuvil::nms(args, rc.pool);")
