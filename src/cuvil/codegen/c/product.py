"""The text of one product's kernel in C: its loops, and what is done to each finished element."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cuvil.codegen.c.lines import Lines, rounded
from cuvil.codegen.c.spelling import CWriter
from cuvil.codegen.contraction_base import Contraction, TileElements
from cuvil.ir.core import Op, Value
from cuvil.ir.types import I8, U8
from cuvil.sym.expr import Dim, mul
from cuvil.sym.facts import Facts


class Product(Lines, Contraction):
    """One contraction's kernel: text of its loops, and of what is done to each finished element."""

    writer_type = CWriter

    def __init__(self, op: Op, main: Op, facts: Facts) -> None:
        super().__init__(op, main, facts)
        self.element = main.operands[0].type.dtype

    @property
    def bytes(self) -> bool:
        """Whether bytes are multiplied, and summed in i32."""
        return self.element in (U8, I8)

    @property
    def suffix(self) -> str:
        """What names of the library's functions on these elements end with."""
        return f"_{self.element.name}"

    def constant(self, value: Value, packing: str) -> str:
        """A constant operand, packed."""
        return self.kernel.buffer(value, "weights", packing=packing)

    def tile(self) -> None:
        """Declare the tile that products are summed in."""
        self.line(f"{'int32_t' if self.bytes else 'float'} tile[CUVIL_ROWS * {self.across}];")

    @property
    def across(self) -> str:
        """How many columns a tile has at most."""
        return "CUVIL_PANEL" if self.bytes else "CUVIL_COLUMNS"

    def depth(self, channels: Dim) -> Dim:
        """How many weights a column has for so many channels: bytes lie in fours."""
        return rounded(channels, 4) if self.bytes else channels

    def width(self, columns: Dim) -> Dim:
        """How many columns so many take: bytes lie in fours."""
        return rounded(columns, 4) if self.bytes else columns

    def multiply(self, taps: int, channels: Dim, weights: str, columns: Dim | str) -> None:
        """Fill the tile with products of ``rows`` and some of the weights' columns: those from n0
        on, or all where ``columns`` names how many there are."""
        sizes = f"count, {taps}, {self.text(channels)}"
        if self.bytes:
            weights += f" + n0 * {self.text(mul(taps, self.depth(channels)))}"
            which = "columns"
        elif isinstance(columns, str):
            which = f"0, {columns}"
        else:
            which = f"n0, {self.text(columns)}"
        self.line(f"cuvil_tile{self.suffix}(rows, {sizes}, {weights}, {which}, tile);")

    def finish(
        self, rows: Sequence[Dim], columns: Dim, batch: Sequence[Dim] = (), n: str = "n0 + j"
    ) -> None:
        """The loops over a finished tile: m runs over ``rows``, n over ``columns``; ``n`` is how
        that is spelled."""
        element = f"tile[i * {self.across} + j]"
        sizes = (batch, rows, columns)
        elements = TileElements(self, self.main, element, sizes, self._indent + 2)
        elements.store(self)
        row, point = elements.row, elements.point
        self.line("CUVIL_ROW_BY_ROW")
        self.loop("i", "count")
        self._named("m", "m0 + i", [*row.lines, *point.lines])
        self.lines += row.lines
        # Vector code needs to know how many columns a full panel has; without it one loop will do.
        self.lines += ["#if defined(CUVIL_LANES)"]
        self.open("if (columns == CUVIL_PANEL)")
        self.line("CUVIL_IN_VECTORS")
        self._columns("CUVIL_PANEL", n, ["  " + line for line in point.lines])
        self._indent -= 1
        self.line("} else")
        self.lines += ["#endif"]
        self._columns("columns", n, point.lines)
        self.close()

    def _columns(self, count: str, n: str, lines: Sequence[str]) -> None:
        self.loop("j", count)
        self._named("n", n, lines)
        self.lines += lines
        self.close()

    def _named(self, name: str, value: str, lines: Sequence[str]) -> None:
        if any(re.search(rf"\b{name}\b", line) for line in lines):
            self.line(f"const ptrdiff_t {name} = {value};")

    def blocks(self, rows: Dim) -> None:
        """Open the loop over blocks of rows."""
        self.loop("m0", rows, "CUVIL_ROWS")
        self.line(f"const ptrdiff_t count = cuvil_minimum(CUVIL_ROWS, {self.text(rows)} - m0);")

    def panels(self, columns: Dim) -> None:
        """Open the loop over panels of columns."""
        self.loop("n0", columns, self.across)
        end = self.text(columns)
        self.line(f"const ptrdiff_t columns = cuvil_minimum({self.across}, {end} - n0);")
