"""Lines of a kernel in C, one after the other: statements, loops, scratch."""

from __future__ import annotations

from cuvil.codegen.kernel import Kernel
from cuvil.codegen.scalar import Writer
from cuvil.sym.expr import Dim, add, floordiv, mul


def rounded(size: Dim, to: int) -> Dim:
    """The next multiple of ``to``."""
    return mul(floordiv(add(size, to - 1), to), to)


class Lines:
    """Collects the statements of ``kernel``; ``writer`` spells its sizes."""

    kernel: Kernel
    writer: Writer
    lines: list[str]
    _indent = 1

    def text(self, dim: Dim) -> str:
        """A size in C."""
        return self.writer.text(dim)

    def line(self, text: str) -> None:
        """One statement."""
        self.lines.append("  " * self._indent + text)

    def open(self, text: str) -> None:
        """A statement that opens a block."""
        self.line(text + " {")
        self._indent += 1

    def loop(self, var: str, extent: Dim | str, step: str = "") -> None:
        """Open a loop over ``var``."""
        end = extent if isinstance(extent, str) else self.text(extent)
        ahead = f"{var} += {step}" if step else f"++{var}"
        self.open(f"for (ptrdiff_t {var} = 0; {var} < {end}; {ahead})")

    def close(self, count: int = 1) -> None:
        """Close so many blocks."""
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
        self.kernel.body = "\n".join(self.lines) + "\n"
        return self.kernel
