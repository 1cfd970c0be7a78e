"""Kernels that are written line by line: calls of the library, and loops."""

from __future__ import annotations

from cuvil.codegen.c.products import rounded
from cuvil.codegen.c.spelling import CWriter
from cuvil.codegen.kernel import Kernel
from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.ir.core import Op
from cuvil.sym.expr import Dim, add
from cuvil.sym.facts import Facts


class LibraryCall:
    """Collects the lines of a kernel that calls functions of the library."""

    def __init__(self, op: Op, facts: Facts) -> None:
        self.op = op
        self.kernel = Kernel(op.short)
        self.writer = CWriter(self.kernel, facts)
        self.outputs = [
            self.kernel.buffer(r, f"out{i}", out=True) for i, r in enumerate(op.results)
        ]
        self._lines: list[str] = []
        self._indent = 1

    def text(self, dim: Dim) -> str:
        """A size in C."""
        return self.writer.text(dim)

    def input(self, index: int) -> str:
        """The pointer to an operand."""
        return self.kernel.buffer(self.op.operands[index], f"in{index}")

    def line(self, text: str) -> None:
        """One statement."""
        self._lines.append("  " * self._indent + text)

    def loop(self, var: str, extent: str) -> None:
        """Open a loop over ``var``."""
        self.line(f"for (ptrdiff_t {var} = 0; {var} < {extent}; ++{var}) {{")
        self._indent += 1

    def close(self, count: int) -> None:
        """Close so many loops."""
        for _ in range(count):
            self._indent -= 1
            self.line("}")

    def scratch(self, floats: Dim) -> str:
        """So many floats of scratch; the expression of their address."""
        start = self.kernel.scratch or 0
        self.kernel.scratch = add(start, rounded(floats, 4))
        name = self.kernel.special("scratch", "float *", "scratch")
        return name if start == 0 else f"{name} + {self.text(start)}"

    def done(self) -> Kernel:
        """The finished kernel."""
        self.kernel.body = "\n".join(self._lines) + "\n"
        return self.kernel


def refused(op: Op, why: str) -> UnsupportedOpError:
    """What to raise for an op that C has no kernel for."""
    node = UnsupportedNode(op.name, str(op.operands[0].type.dtype), str(op.loc), why)
    return UnsupportedOpError([node], stage="codegen")
