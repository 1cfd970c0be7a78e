"""Reductions in C, with everything before and after them.

As in the library's kernels, the lanes of a sum are independent, so that the order of additions is
that of the source: along the last dimension where that is reduced ("rows"), over a block of it
where it is kept ("columns").
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.codegen.c.maps import closed, opened
from cuvil.codegen.c.spelling import CWriter, c_text
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.loops import Loop, loop_facts, loop_names
from cuvil.codegen.reduce_kernel import Reduction
from cuvil.codegen.reduce_nest import Body, Nest
from cuvil.codegen.reduction_rules import (
    accumulator,
    adds_floats,
    combine,
    finish,
    initial,
)
from cuvil.codegen.scalar import Point, Provider, Writer
from cuvil.ir.core import Op
from cuvil.ir.types import F32, DType
from cuvil.ops.elementwise import widen
from cuvil.sym.expr import Dim, product
from cuvil.sym.facts import Facts

ROW_LANES, ROW_LANES_TEXT = 8, "CUVIL_SUMS"
COLUMN_LANES = "CUVIL_COLUMN_SUMS"
SHORT = 256
"""Elements of one sum up to which it may be made one after the other, where size counts."""
LONG = 1 << 14
"""Elements of one sum beyond which it is made in f64."""


def reduce_kernel(op: Op, facts: Facts) -> Kernel:
    """The kernel of a fused op of kind "reduce"."""
    return _Reduction(op, facts).build()


class _Reduction(Reduction):
    def writer(self, rename: dict[str, Dim]) -> Writer:
        loops = self._loops(self.kept + self.folded)
        return CWriter(self.kernel, loop_facts(self.base_facts, loops), loop_names(loops), rename)

    def nest(self, writer: Writer, kept: list[Loop], folded: list[Loop]) -> Nest:
        assert isinstance(writer, CWriter)
        return _Nest(writer, kept, folded, self.rows)

    def build(self) -> Kernel:
        """Write the function's body."""
        if any(d == 0 for d in self.op.results[0].type.shape):
            return self.kernel
        self.kernel.body = "\n".join(self.written()[1]) + "\n"
        return self.kernel


def _computed_in(op: Op) -> DType:
    dtype = op.operands[0].type.dtype
    return F32 if dtype.is_float and dtype.size == 2 else dtype


class _Nest(Nest):
    """The loops around a reduction; its accumulators are arrays over the lanes."""

    writer: CWriter

    def __init__(
        self, writer: CWriter, kept: list[Loop], folded: list[Loop], rows: bool
    ) -> None:
        super().__init__(writer, kept, folded, rows)
        self.lane = "lane" if folded or not rows else "0"
        self.indent = 1 + len(kept)
        extent = product(x.extent for x in folded)
        self.long = not isinstance(extent, int) or extent > LONG
        short = self.long or (isinstance(extent, int) and extent <= SHORT)
        row = ROW_LANES_TEXT if short else str(ROW_LANES)
        self.lanes = COLUMN_LANES if not rows else (row if folded else "1")

    @property
    def in_blocks(self) -> bool:
        """Long sums are made in f64 instead."""
        return False

    def head(self) -> tuple[list[str], Dim]:
        if self.rows:
            return opened(self.writer, self.kept, 1), 1
        outer, last = self.kept[:-1], self.kept[-1]
        lines = opened(self.writer, outer, 1)
        pad, extent = "  " * (1 + len(outer)), self.writer.text(last.extent)
        lines += [
            f"{pad}for (ptrdiff_t first = 0; first < {extent}; first += {COLUMN_LANES}) {{",
            f"{pad}  const ptrdiff_t width = cuvil_minimum({COLUMN_LANES}, {extent} - first);",
        ]
        return lines, 1

    def closing(self) -> list[str]:
        return closed(len(self.kept), 1)

    def _type(self, op: Op) -> str:
        if op.short.startswith("arg"):
            return f"cuvil_best_{_computed_in(op).name}"
        return "double" if adds_floats(op) and self.long else accumulator(op)

    def _start(self, op: Op) -> str:
        return "{0, -1}" if op.short.startswith("arg") else c_text(initial(op))

    def accumulate(self, point: Point, op: Op, name: str, parts: bool) -> None:
        """One accumulator a lane; of the place of an extreme in a row there is only one."""
        if op.short.startswith("arg") and self.rows:
            point.line(f"{self._type(op)} {name}[1] = {{{self._start(op)}}};")
            return
        start = self._start(op)
        point.line(f"{self._type(op)} {name}[{self.lanes}];")
        if op.short.startswith("arg"):
            start = f"({self._type(op)}){start}"
        point.line(
            f"for (ptrdiff_t lane = 0; lane < {self.lanes}; ++lane) {name}[lane] = {start};"
        )

    def taken(self, op: Op, acc: str, element: str, position: str | None) -> list[str]:
        dtype = op.operands[0].type.dtype
        if op.short.startswith("arg"):
            lane = "0" if self.rows else self.lane
            which = "greatest" if op.short == "argmax" else "least"
            last = "last_" if op.attrs.get("last") else ""
            name = f"cuvil_take_{last}{which}_{_computed_in(op).name}"
            return [f"{name}(&{acc}[{lane}], {c_text(widen(element, dtype))}, {position});"]
        if adds_floats(op):
            return [f"{acc}[{self.lane}] += {c_text(widen(element, dtype))};"]
        lines = combine(op, acc, self.lane, element, position)
        return [self.writer.spell(line, [_computed_in(op)]) for line in lines]

    def walk(
        self, point: Point, body: Body, lanes: bool = False,
        parts: Sequence[tuple[Op, str]] = (),
    ) -> None:  # fmt: skip
        plain = self.folded[:-1] if self.rows else self.folded
        for loop in plain:
            point.line(opened(self.writer, [loop], 0)[0])
            point.indent += 1
        if not self.rows:
            self._lane_loop(point, body, "width", "first", self.kept[-1].var)
        elif lanes and self.folded:
            self._row_in_lanes(point, body)
        elif self.folded:
            point.line(opened(self.writer, [self.folded[-1]], 0)[0])
            self._inside(point, body, [])
        else:
            point.line("{")
            self._inside(point, body, [])
        for _ in plain:
            point.indent -= 1
            point.line("}")

    def _inside(self, point: Point, body: Body, first: list[str]) -> list[str]:
        """The lines of a loop's body, and its closing brace."""
        inner = Point(self.writer, point.indent + 1, point)
        for line in first:
            inner.line(line)
        body(inner)
        point.lines += inner.lines
        point.line("}")
        return inner.lines

    def _lane_loop(
        self, point: Point, body: Body, count: str, base: str, var: str
    ) -> list[str]:
        point.line(f"for (ptrdiff_t lane = 0; lane < {count}; ++lane) {{")
        return self._inside(point, body, [f"const ptrdiff_t {var} = {base} + lane;"])

    def _row_in_lanes(self, point: Point, body: Body) -> None:
        """Whole blocks of lanes, then what is left: the same text twice."""
        last = self.folded[-1]
        extent, base = self.writer.text(last.extent), self.writer.fresh("base")
        whole = isinstance(last.extent, int) and last.extent % ROW_LANES == 0
        point.line(f"ptrdiff_t {base} = 0;")
        point.line(f"for (; {base} + {self.lanes} <= {extent}; {base} += {self.lanes}) {{")
        point.indent += 1
        lines = self._lane_loop(point, body, self.lanes, base, last.var)
        point.indent -= 1
        point.line("}")
        if not whole:
            point.line(f"for (ptrdiff_t lane = 0; lane < {extent} - {base}; ++lane) {{")
            point.lines += [line[2:] for line in lines]
            point.line("}")

    def each_lane(self, point: Point, body: Body) -> None:
        """Write ``body`` once for each kept point: once for rows, for each lane for columns."""
        if not self.rows:
            self._lane_loop(point, body, "width", "first", self.kept[-1].var)
            return
        inner = Point(self.writer, point.indent, point)
        body(inner)
        point.lines += inner.lines

    def collapse(self, point: Point, op: Op, acc: str, count: str) -> None:
        if self.rows and self.folded and not op.short.startswith("arg"):
            point.line(f"for (ptrdiff_t half = {self.lanes} / 2; half > 0; half /= 2) {{")
            other = f"{acc}[lane + half]"
            line = f"{acc}[lane] += {other};"
            if not adds_floats(op):
                (line,) = combine(op, acc, "lane", other, None)
                line = self.writer.spell(line, [_computed_in(op)])
            point.line(f"  for (ptrdiff_t lane = 0; lane < half; ++lane) {line}")
            point.line("}")
        ctype = op.results[0].type.dtype.cxx
        lane = "0" if self.rows else "lane"
        text = finish(op, f"{acc}[{lane}]", count)
        text = f"({ctype}){self.writer.spell(text, [op.results[0].type.dtype])}"
        if self.rows:
            point.line(f"const {ctype} {acc}_result = {text};")
            return
        point.line(f"{ctype} {acc}_result[{COLUMN_LANES}];")
        point.line(
            f"for (ptrdiff_t lane = 0; lane < width; ++lane) {acc}_result[lane] = {text};"
        )

    def result_provider(self, op: Op, acc: str) -> Provider:
        name = f"{acc}_result" if self.rows else f"{acc}_result[lane]"
        return lambda point, index: name

