"""Kernels that are written line by line: calls of the library, and loops."""

from __future__ import annotations

from cuvil.codegen.c.lines import Lines
from cuvil.codegen.c.spelling import CWriter
from cuvil.codegen.kernel import Kernel
from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.ir.core import Op
from cuvil.ir.types import BF16
from cuvil.sym.facts import Facts


class LibraryCall(Lines):
    """Collects the lines of a kernel that calls functions of the library."""

    def __init__(self, op: Op, facts: Facts) -> None:
        self.op = op
        self.kernel = Kernel(op.short)
        self.writer = CWriter(self.kernel, facts)
        self.outputs = [
            self.kernel.buffer(r, f"out{i}", out=True) for i, r in enumerate(op.results)
        ]
        self.lines = []

    def input(self, index: int) -> str:
        """The pointer to an operand."""
        return self.kernel.buffer(self.op.operands[index], f"in{index}")


def refused(op: Op, why: str) -> UnsupportedOpError:
    """What to raise for an op that C has no kernel for."""
    dtype = op.operands[0].type.dtype
    way = 'C has products in f32 alone: leave out precision="bf16"' if dtype == BF16 else ""
    node = UnsupportedNode(op.name, str(dtype), str(op.loc), why, way)
    return UnsupportedOpError([node], stage="codegen")
