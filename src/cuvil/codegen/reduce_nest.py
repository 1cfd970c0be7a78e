"""The loops around a reduction, in the form for rows or for columns.

Where the last dimension is reduced, the lanes (independent accumulators) run along it ("rows");
where it is kept, a block of it forms the lanes ("columns").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuvil.codegen.loops import Loop, unflatten
from cuvil.codegen.reduction_rules import (
    SUMS,
    accumulator,
    combine,
    finish,
    initial,
    total_type,
)
from cuvil.codegen.scalar import Point, Provider, Writer
from cuvil.ir.core import Op
from cuvil.sym.expr import Dim, product

ROW_LANES = 64
COLUMN_LANES = 64
# A sum of more than a block is a sum of sums, in f64: an element then passes through
# those of a block in f32 (N. Higham, "The accuracy of floating point summation", 1993).
BLOCK = 128
ROW_BLOCK = 256 * ROW_LANES  # elements, of all lanes

Body = Callable[[Point], None]


class Nest:
    """The text of the loops around a reduction, in the form for rows or for columns."""

    def __init__(self, writer: Writer, kept: list[Loop], folded: list[Loop], rows: bool) -> None:
        self.writer = writer
        self.kept = kept
        self.folded = folded
        self.rows = rows
        self.lane = "lane"
        self.indent = 2  # of what stands inside the outer loops
        self.in_parts: set[str] = set()  # accumulators whose totals are apart from their parts
        self.flush = ""  # for rows: what adds the parts to the totals, and whether it did
        self.flushed = ""

    def head(self) -> tuple[list[str], Dim]:
        """Opening lines of the shared loop, and how many items it has."""
        lines = ["  for (int64_t item = begin; item < end; ++item) {"]
        if self.rows:
            lines += unflatten(self.writer, self.kept, "item", 2)
            return lines, product(x.extent for x in self.kept)
        last = self.kept[-1]
        blocks = Loop("block", (last.extent + COLUMN_LANES - 1) // COLUMN_LANES)
        outer = [*self.kept[:-1], blocks]
        lines += unflatten(self.writer, outer, "item", 2)
        extent = self.writer.text(last.extent)
        lines.append(f"    const int64_t first = block * {COLUMN_LANES};")
        lines.append(
            f"    const int64_t width = cuvil::minimum({COLUMN_LANES}, {extent} - first);"
        )
        return lines, product(x.extent for x in outer)

    def closing(self) -> list[str]:
        """What ends the outer loops."""
        return ["  }"]

    def taken(self, op: Op, acc: str, element: str, position: str | None) -> list[str]:
        """Statements that take an element into the accumulator of this lane."""
        return combine(op, acc, self.lane, element, position)

    def declare(self, point: Point, name: str, ctype: str, value: str) -> None:
        """Accumulators, one a lane."""
        lanes = ROW_LANES if self.rows else COLUMN_LANES
        point.line(f"{ctype} {name}[{lanes}];")
        point.line(f"for (int64_t lane = 0; lane < {lanes}; ++lane) {name}[lane] = {value};")

    def accumulate(self, point: Point, op: Op, name: str, parts: bool) -> None:
        """The accumulators of a reduction; of a sum in ``parts``, those of the totals."""
        if not parts:
            self.declare(point, name, accumulator(op), initial(op))
            return
        self.in_parts.add(name)
        if self.rows:
            point.line(f"{total_type(op)} {name}[{ROW_LANES}];  // set by the first flush")
        else:
            self.declare(point, name, total_type(op), "0")

    @property
    def in_blocks(self) -> bool:
        """Whether a lane may take so many elements that they are added up in blocks: of all
        reduced loops for rows, of the innermost one for columns."""
        if not self.folded:
            return False
        extents = [loop.extent for loop in (self.folded if self.rows else self.folded[-1:])]
        most = ROW_BLOCK if self.rows else BLOCK
        extent = product(extents)
        return not isinstance(extent, int) or extent > most

    def walk(
        self, point: Point, body: Body, lanes: bool = False,
        parts: Sequence[tuple[Op, str]] = (),
    ) -> None:  # fmt: skip
        """Loop over the reduced dimensions (and lanes); ``body(point)`` writes one element.

        ``parts`` are sums that are made in blocks: reductions with the name of their accumulator,
        whose ``_part`` the body adds to.
        """
        folded = self.folded
        plain = folded[:-1] if self.rows or parts else folded
        if self.rows and parts:
            self._open_parts(point, parts)
        indent = point.indent
        for loop in plain:
            extent = self.writer.text(loop.extent)
            point.line(f"for (int64_t {loop.var} = 0; {loop.var} < {extent}; ++{loop.var}) {{")
            point.indent += 1
        if parts and not self.rows:
            self._blocks(point, body, parts)
        elif self.rows and lanes:
            self._row_lanes(point, body, parts)
        elif self.rows:
            self._row(point, body)
        else:
            self._columns(point, body)
        while point.indent > indent:
            point.indent -= 1
            point.line("}")

    def _open_parts(self, point: Point, parts: Sequence[tuple[Op, str]]) -> None:
        """The parts of rows: ``filled`` says how many elements a lane has taken since a flush."""
        self.flush, self.flushed = self.writer.fresh("flush"), self.writer.fresh("flushed")
        for op, acc in parts:
            self.declare(point, f"{acc}_part", accumulator(op), initial(op))
        point.line(f"int64_t {self.flushed}_after = 0;")
        point.line(f"bool {self.flushed} = false;")
        point.line(f"const auto {self.flush} = [&]() __attribute__((always_inline)) {{")
        point.line(f"  for (int64_t lane = 0; lane < {ROW_LANES}; ++lane) {{")
        for _, acc in parts:
            total = f"{self.flushed} ? {acc}[lane] : 0"
            point.line(f"    {acc}[lane] = ({total}) + {acc}_part[lane];")
            point.line(f"    {acc}_part[lane] = 0;")
        point.line("  }")
        point.line(f"  {self.flushed} = true;")
        point.line(f"  {self.flushed}_after = 0;")
        point.line("};")

    def _blocks(self, point: Point, body: Body, parts: Sequence[tuple[Op, str]]) -> None:
        loop = self.folded[-1]
        start, stop = self.writer.fresh("start"), self.writer.fresh("stop")
        extent = self.writer.text(loop.extent)
        point.line(f"for (int64_t {start} = 0; {start} < {extent}; {start} += {BLOCK}) {{")
        point.indent += 1
        for op, acc in parts:
            self.declare(point, f"{acc}_part", accumulator(op), initial(op))
        point.line(f"const int64_t {stop} = cuvil::minimum({start} + {BLOCK}, {extent});")
        point.line(f"for (int64_t {loop.var} = {start}; {loop.var} < {stop}; ++{loop.var}) {{")
        point.indent += 1
        self._columns(point, body)
        point.indent -= 1
        point.line("}")
        for _, acc in parts:
            line = f"{acc}[lane] += {acc}_part[lane];"
            point.line(f"for (int64_t lane = 0; lane < {COLUMN_LANES}; ++lane) {line}")
        point.indent -= 1
        point.line("}")

    def _inner(self, point: Point, body: Body, indent: int) -> list[str]:
        inner = Point(self.writer, indent, point)
        body(inner)
        return inner.lines

    def _row_lanes(
        self, point: Point, body: Body, parts: Sequence[tuple[Op, str]]
    ) -> None:
        last = self.folded[-1] if self.folded else None
        if last is None:
            point.line("{")
            point.line("  constexpr int64_t lane = 0;")
            point.lines += self._inner(point, body, point.indent + 1)
            point.line("}")
            return
        extent = self.writer.text(last.extent)
        var = last.var
        step = self.writer.fresh("step")
        point.line("{")
        point.indent += 1
        point.line(f"const auto {step} = [&](int64_t {var}, int64_t lane) "
                   "__attribute__((always_inline)) {")  # fmt: skip
        point.lines += self._inner(point, body, point.indent + 1)
        point.line("};")
        point.line(f"int64_t {var} = 0;")
        if parts:
            stop = self.writer.fresh("stop")
            point.line(f"while ({var} + {ROW_LANES} <= {extent}) {{")
            point.indent += 1
            point.line(f"const int64_t {stop} = cuvil::minimum({var} + {ROW_BLOCK}, "
                       f"{extent} - {ROW_LANES - 1});")  # fmt: skip
            point.line(f"{self.flushed}_after += {stop} - {var};")
            point.line(f"for (; {var} < {stop}; {var} += {ROW_LANES}) {{")
        else:
            point.line(f"for (; {var} + {ROW_LANES} <= {extent}; {var} += {ROW_LANES}) {{")
        point.line("  CUVIL_INDEPENDENT")
        lanes = f"for (int64_t lane = 0; lane < {ROW_LANES}; ++lane)"
        point.line(f"  {lanes} {step}({var} + lane, lane);")
        point.line("}")
        full = f"if ({self.flushed}_after >= {ROW_BLOCK}) {self.flush}();"
        if parts:
            point.line(full)
            point.indent -= 1
            point.line("}")
            point.line(f"{self.flushed}_after += {ROW_LANES};")
        point.line("CUVIL_INDEPENDENT")
        point.line(
            f"for (int64_t lane = 0; lane < {extent} - {var}; ++lane) {step}({var} + lane, lane);"
        )
        if parts:
            point.line(full)
        point.indent -= 1
        point.line("}")

    def _row(self, point: Point, body: Body) -> None:
        if not self.folded:
            point.line("{")
            point.lines += self._inner(point, body, point.indent + 1)
            point.line("}")
            return
        last = self.folded[-1]
        extent = self.writer.text(last.extent)
        point.line("CUVIL_INDEPENDENT")
        point.line(f"for (int64_t {last.var} = 0; {last.var} < {extent}; ++{last.var}) {{")
        point.lines += self._inner(point, body, point.indent + 1)
        point.line("}")

    def _columns(self, point: Point, body: Body) -> None:
        var = self.kept[-1].var
        lines = self._inner(point, body, point.indent + 1)
        step = self.writer.fresh("step")
        point.line(f"const auto {step} = [&](int64_t lane) __attribute__((always_inline)) {{")
        point.line(f"  const int64_t {var} = first + lane;")
        point.lines += lines
        point.line("};")
        point.line(f"if (width == {COLUMN_LANES}) {{")
        point.line("  CUVIL_INDEPENDENT")
        point.line(f"  for (int64_t lane = 0; lane < {COLUMN_LANES}; ++lane) {step}(lane);")
        point.line("} else {")
        point.line("  CUVIL_INDEPENDENT")
        point.line(f"  for (int64_t lane = 0; lane < width; ++lane) {step}(lane);")
        point.line("}")

    def each_lane(self, point: Point, body: Body) -> None:
        """Write ``body`` once for each kept point: once for rows, for each lane for columns."""
        if self.rows:
            inner = Point(self.writer, point.indent, point)
            body(inner)
            point.lines += inner.lines
            return
        point.line("CUVIL_INDEPENDENT")
        point.line("for (int64_t lane = 0; lane < width; ++lane) {")
        point.line(f"  const int64_t {self.kept[-1].var} = first + lane;")
        point.lines += self._inner(point, body, point.indent + 1)
        point.line("}")

    def collapse(self, point: Point, op: Op, acc: str, count: str) -> None:
        """Combine the lanes of rows pairwise; finish means."""
        if not self.rows:
            self._collapse_columns(point, op, acc, count)
            return
        if acc in self.in_parts:
            point.line(f"if ({self.flushed}) {{")
            point.indent += 1
            point.line(f"{self.flush}();")
            self._pairwise(point, op, acc)
            point.line(f"{acc}_part[0] = {accumulator(op)}({acc}[0]);")
            point.indent -= 1
            point.line("} else {")
            point.indent += 1
            self._pairwise(point, op, f"{acc}_part")
            point.indent -= 1
            point.line("}")
            acc_text = f"{acc}_part[0]"
        else:
            self._pairwise(point, op, acc)
            acc_text = f"{acc}[0]"
        point.line(f"const auto {acc}_result = {finish(op, acc_text, count)};")

    def _pairwise(self, point: Point, op: Op, acc: str) -> None:
        half = (ROW_LANES if self.folded else 1) // 2
        if not half:
            return
        if op.short in SUMS:
            point.line(f"{acc}[0] = cuvil::sum_of_lanes<{ROW_LANES}>({acc});")
            return
        lines = combine(op, acc, "lane", f"{acc}[lane + half]", None)
        point.line(f"for (int64_t half = {half}; half > 0; half /= 2)")
        point.line("  for (int64_t lane = 0; lane < half; ++lane) {")
        for line in lines:
            point.line("    " + line)
        point.line("  }")

    def _column(self, op: Op, acc: str) -> str:
        """A finished accumulator of columns in the type that sums have."""
        return f"{accumulator(op)}({acc}[lane])" if acc in self.in_parts else f"{acc}[lane]"

    def _collapse_columns(self, point: Point, op: Op, acc: str, count: str) -> None:
        text = finish(op, self._column(op, acc), count)
        if text != f"{acc}[lane]":
            point.line(f"{op.type.dtype.cxx} {acc}_result[{COLUMN_LANES}];")
            point.line(
                f"for (int64_t lane = 0; lane < {COLUMN_LANES}; ++lane) "
                f"{acc}_result[lane] = {text};"
            )

    def result_provider(self, op: Op, acc: str) -> Provider:
        """How later code reads the finished reduction."""
        if self.rows:
            return lambda point, index: f"{acc}_result"
        changed = finish(op, self._column(op, acc), "1") != f"{acc}[lane]"
        name = f"{acc}_result" if changed else acc
        return lambda point, index: f"{name}[lane]"

    def position_text(self, op: Op, domain: tuple[Dim, ...]) -> str | None:
        """For argmax and argmin: the position along the reduced axis."""
        if not op.short.startswith("arg"):
            return None
        axis = op.attrs["axis"] % len(domain)
        return "0" if domain[axis] == 1 else f"i{axis}"
