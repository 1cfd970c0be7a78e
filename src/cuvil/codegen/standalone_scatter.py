"""Scattering: a copy of the data, then the updates in order."""

from __future__ import annotations

from collections.abc import Mapping

from cuvil.codegen.kernel import Kernel, storage
from cuvil.codegen.native_call import NativeCall
from cuvil.errors import CuvilError
from cuvil.ir.core import Op
from cuvil.sym.expr import product
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

_MAX_RANK = 16  # kScatterRank of native/scatter.hpp
_JOINS: Mapping[str, str] = {
    "none": "Assign", "add": "AddTo", "mul": "MultiplyBy", "max": "Greatest", "min": "Least",
}  # fmt: skip


class _Scatter:
    def __init__(self, op: Op, facts: Facts) -> None:
        self.call = NativeCall(op, facts)
        data, index, _ = (v.type for v in op.operands)
        if data.rank > _MAX_RANK:
            raise CuvilError(f"scatter has a kernel up to rank {_MAX_RANK}", where=str(op.loc))
        join = _JOINS[op.attrs.get("reduction", "none")]
        element = storage(data.dtype)
        self.types = f"<cuvil::{join}, {element}, {storage(index.dtype)}>"
        call = self.call
        self.data, self.index, self.updates = (call.input(i) for i in range(3))
        self.out = call.outputs[0]
        count = call.text(data.elements)
        call.line(f"cuvil::scatter_base({self.out}, {self.data}, {count}, rc.pool);")
        sizes = call.dims(data.shape) if data.rank else "{1}"
        call.line(f"const int64_t sizes[] = {sizes};")


def scatter_elements(op: Op, facts: Facts, target: Target) -> Kernel:
    """scatter_elements (native/scatter.hpp)"""
    s = _Scatter(op, facts)
    rank = op.type.rank
    s.call.line(f"const int64_t shape[] = {s.call.dims(op.operands[1].type.shape)};")
    return s.call.finish(
        "scatter.hpp",
        f"cuvil::scatter_elements{s.types}({s.out}, {s.index}, {s.updates}, {rank}, "
        f"{op.attrs['axis'] % rank}, shape, sizes, {s.call.fault()}, rc.pool);",
    )


def scatter_nd(op: Op, facts: Facts, target: Target) -> Kernel:
    """scatter_nd (native/scatter.hpp)"""
    s = _Scatter(op, facts)
    index = op.operands[1].type
    depth = index.shape[-1]
    assert isinstance(depth, int)
    rows, block = product(index.shape[:-1]), product(op.type.shape[depth:])
    return s.call.finish(
        "scatter.hpp",
        f"cuvil::scatter_nd{s.types}({s.out}, {s.index}, {s.updates}, {s.call.text(rows)}, "
        f"{depth}, {s.call.text(block)}, sizes, {s.call.fault()}, rc.pool);",
    )
