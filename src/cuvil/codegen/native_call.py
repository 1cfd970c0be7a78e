"""Kernels that are one call of a native function: its arguments, scratch and packed constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuvil.codegen.kernel import THREADS, Kernel
from cuvil.codegen.scalar import Writer
from cuvil.ir.core import Op, Value
from cuvil.ir.types import Shape
from cuvil.passes.memory import alias_root
from cuvil.sym.expr import Dim, add, floordiv, mul, product
from cuvil.sym.facts import Facts

Array = np.ndarray[Any, Any]


def round_up(size: Dim, to: int) -> Dim:
    """The next multiple of ``to``."""
    return mul(floordiv(add(size, to - 1), to), to)


class NativeCall:
    """Collects the lines of a kernel's ``run`` function.

    Inputs are named ``in0``, ``in1``..., outputs ``out0``..., all of them dense and row major.
    """

    def __init__(self, op: Op, facts: Facts) -> None:
        self.op = op
        self.kernel = Kernel(op.short)
        self.writer = Writer(self.kernel, facts, {THREADS: "rc.threads"})
        self.outputs = [
            self.kernel.buffer(r, f"out{i}", out=True) for i, r in enumerate(op.results)
        ]
        self._lines: list[str] = []
        self._scratch: Dim = 0

    def text(self, dim: Dim) -> str:
        """A dimension in C++."""
        return self.writer.text(dim)

    def dims(self, values: Sequence[Dim]) -> str:
        """Dimensions as a brace list."""
        return "{" + ", ".join(self.text(v) for v in values) + "}"

    def input(self, index: int) -> str:
        """The pointer to an operand."""
        return self.kernel.buffer(self.op.operands[index], f"in{index}")

    def packed(self, value: Value, name: str, packing: str) -> str:
        """The pointer to a constant in a packed form."""
        return self.kernel.buffer(value, name, packing=packing)

    def scratch(self, size: Dim) -> str:
        """The address of ``size`` bytes of scratch, aligned to 64."""
        name = self.kernel.special("scratch", "char *", "scratch")
        start = self._scratch
        self._scratch = add(start, round_up(size, 64))
        self.kernel.scratch = self._scratch
        return name if start == 0 else f"({name} + {self.text(start)})"

    def fault(self) -> str:
        """The pointer to the record of an index out of range."""
        return self.kernel.special("fault", "cuvil::Fault *", "fault")

    def line(self, text: str) -> None:
        """One statement of ``run``."""
        self._lines.append(f"  {text}")

    def set(self, name: str, value: Dim | str) -> None:
        """``args.name = value;``"""
        self.line(f"args.{name} = {value if isinstance(value, str) else self.text(value)};")

    def finish(self, include: str, call: str) -> Kernel:
        """Close ``run`` with the call."""
        self.kernel.includes.add(include)
        self.line(call)
        self.kernel.launch += "\n".join(self._lines) + "\n"
        return self.kernel


def constant_array(value: Value) -> Array | None:
    """The data of a constant operand (its own shape may differ by a reshape)."""
    root = alias_root(value)
    if root.op is None or root.op.short != "constant":
        return None
    array: Array = root.op.attrs["value"].array
    return array


def flag(value: object) -> str:
    """A bool in C++."""
    return "true" if value else "false"


def split_axis(shape: Shape, axis: int) -> tuple[Dim, Dim, Dim]:
    """(outer, size, inner) around ``axis``, which may be negative; 1s for rank 0."""
    if not shape:
        return 1, 1, 1
    axis %= len(shape)
    return product(shape[:axis]), shape[axis], product(shape[axis + 1 :])
