"""The ``run`` function of a contraction's kernel: arguments of the native template and the function
that finishes its tiles."""

from __future__ import annotations

from cuvil.analysis.contraction_views import reads_pairs
from cuvil.analysis.index_map import offset_of
from cuvil.codegen.contraction_base import Contraction, TileElements
from cuvil.codegen.kernel import Kernel
from cuvil.errors import CuvilError
from cuvil.ir.core import Op, Value
from cuvil.ir.types import BF16, F32, I32
from cuvil.ops.registry import registry
from cuvil.ops.rounded import ROUNDED
from cuvil.passes.knobs import TUNE
from cuvil.sym.expr import Dim, add

Dims = tuple[Dim, ...]


class Call(Contraction):
    """Builds the ``run`` function of a contraction: argument assignments and the epilogue."""

    def set(self, name: str, value: Dim | str) -> None:
        """``args.name = value;``"""
        text = value if isinstance(value, str) else self.writer.text(value)
        self.lines.append(f"  args.{name} = {text};")

    def tuned(self, knob: str, name: str = "") -> int:
        """What tuning chose for a knob, which is set as ``args.name`` then; 0 where nothing."""
        chosen = int(self.op.attrs.get(TUNE, {}).get(knob, 0))
        if chosen:
            self.set(name or knob, chosen)
        return chosen

    def constant(self, value: Value, packing: str) -> str:
        """A constant operand in a packed form."""
        if value.op is not None:
            raise CuvilError("a packed operand must be a constant", where=str(self.main.loc))
        return self.kernel.buffer(value, "weights", packing=packing)

    def scratch(self, size: Dim) -> str:
        """Scratch memory of ``size`` bytes; may use the symbol of the thread count."""
        self.kernel.scratch = add(self.kernel.scratch or 0, size)
        return self.kernel.special("scratch", "char *", "scratch")

    def epilogue(self, rows: Dims, columns: Dim, batch: Dims = ()) -> None:
        """Write the function that finishes tiles: m runs over ``rows``, n over ``columns``."""
        whole = self.main.type.dtype == I32
        element = "const cuvil::vi_element*"
        cast = f"  {element} sums = ({element})tile;\n" if whole else ""
        tile = f"{'sums' if whole else 'tile'}[row * ld + column]"
        function = _TileFunction(self, self.main, tile, batch, rows, columns)
        if reads_pairs(self.main) and function.round_rows(self, columns):
            cast = "  float* sums = (float*)tile;\n"
        else:
            function.store(self)
        self.kernel.body += function.text("finish_tile", "const float* tile", cast)
        self.lines.append("  args.epilogue = {finish_tile, &k};")

    def in_place(self, field: str, main: Op, value: Value) -> None:
        """Write the function that turns the result of ``main``, a contraction on the way, into
        ``value`` where it lies."""
        if value is main.results[0]:
            return
        shape, tile = main.type.shape, "tile[row * ld + column]"
        function = _TileFunction(self, main, tile, (), shape[:-1], shape[-1])
        function.point.line(f"{tile} = {function.point.element(value, function.index)};")
        name = f"finish_{field}"
        self.kernel.body += function.text(name, "float* tile")
        self.lines.append(f"  args.{field} = {{{name}, &k}};")

    def finish(self, struct: str, function: str, include: str) -> Kernel:
        """Close the run function."""
        self.kernel.includes.add(include)
        self.set("pool", "rc.pool")
        self.kernel.launch += (
            f"  cuvil::{struct} args = {{}};\n"
            + "\n".join(self.lines)
            + f"\n  cuvil::{function}(args);\n"
        )
        return self.kernel


class _TileFunction(TileElements):
    """A function over the elements of a tile."""

    def __init__(
        self, call: Call, main: Op, element: str, batch: Dims, rows: Dims, columns: Dim
    ) -> None:
        super().__init__(call, main, element, (batch, rows, columns), 3)
        self.batch = "batch" if batch else ""
        known = (registry().get(op.name) for op in call.op.regions[0].ops)
        self.after: list[str] = []
        self.has_functions = any(d is not None and d.tolerance == "close" for d in known)

    def round_rows(self, call: Call, columns: Dim) -> bool:
        """Store the only output where it is f32 rounded to bf16: its elements replace the tile's,
        whose rows are rounded when they are complete. Compilers would do so in small pieces. False,
        without a change, where the output is something else."""
        (inside, result), name = call.outputs[0], call.names[0]
        if len(call.outputs) > 1 or columns == 1 or result.type.shape[-1] != columns:
            return False
        text = self._unrounded(inside)
        if text is None:
            return False
        self.point.line(f"sums[row * ld + column] = {text};")
        facts = self.point.writer.facts
        offset = facts.simplify(offset_of(self.index, result.type.shape))
        place = self.point.writer.offset(offset, BF16.size)
        self.after = [
            "    const int64_t n = n0;",
            f"    cuvil::round_row(&{name}[{place}], &sums[row * ld], columns);",
        ]
        call.kernel.includes.add("halves.hpp")
        return True

    def _unrounded(self, value: Value) -> str | None:
        """The element of f32 that is rounded to one of ``value``, if it is."""
        op = value.op
        if op is None or value.type.dtype != BF16 or op.operands[0].type.dtype != F32:
            return None
        if op.short == "cast":
            return self.point.element(op.operands[0], self.index)
        definition = registry()[op.name]
        if op.short not in ROUNDED.values() or definition.scalar is None:
            return None
        return definition.scalar([self.point.element(op.operands[0], self.index)], [F32], F32)

    def text(self, name: str, tile: str, before: str = "") -> str:
        """The function; ``tile`` declares that parameter."""
        return (
            f"void {name}(const void* context, {tile}, int64_t ld, "
            f"int64_t {self.batch}, int64_t m0,\n"
            f"                 int64_t rows, int64_t n0, int64_t columns) {{\n@UNPACK@\n{before}"
            f"{self._rows()}}}\n"
        )

    def _rows(self) -> str:
        """The loop over rows. Where functions with many constants are called, rows of whole tiles
        have one of their own: of a known length, so that compilers move the constants out."""
        row, body = ("".join(f"{x}\n" for x in p.lines) for p in (self.row, self.point))
        after = "".join(f"{x}\n" for x in self.after)
        one = (
            f"    const int64_t m = m0 + row;\n{row}"
            "    CUVIL_INDEPENDENT\n"
            "    for (int64_t column = 0; column < columns; ++column) {\n"
            f"      const int64_t n = n0 + column;\n{body}    }}\n{after}  }}"
        )
        each = "  for (int64_t row = 0; row < rows; ++row) "
        if not self.has_functions:
            return f"{each}{{\n{one}\n"
        return (
            "  const auto finish_row = [&](int64_t row, int64_t columns) CUVIL_ALWAYS_INLINE {\n"
            f"{one};\n"
            "  if (columns == cuvil::NR) {\n"
            f"  {each}finish_row(row, cuvil::NR);\n"
            "  } else {\n"
            f"  {each}finish_row(row, columns);\n  }}\n"
        )
