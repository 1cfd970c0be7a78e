"""The ``run`` function of a contraction's kernel: arguments of the native template and the function
that finishes its tiles."""

from __future__ import annotations

from cuvil.analysis.index_map import Index, View, delinearize
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.loops import Loop, loop_facts, loop_names
from cuvil.codegen.scalar import Point, Writer, buffer_name
from cuvil.errors import CuvilError
from cuvil.ir.core import Op, Value
from cuvil.ir.types import I32
from cuvil.passes.knobs import TUNE
from cuvil.sym.expr import Dim, add, product, symbol
from cuvil.sym.facts import Facts

Dims = tuple[Dim, ...]


class Call:
    """Builds the ``run`` function of a contraction: argument assignments and the epilogue."""

    def __init__(self, op: Op, main: Op, facts: Facts) -> None:
        self.op = op
        self.main = main
        self.facts = facts
        self.kernel = Kernel(op.attrs["name"])
        self.outputs = list(zip(op.regions[0].terminator.operands, op.results, strict=True))
        self.names = [
            self.kernel.buffer(result, f"out{i}", out=True)
            for i, (_, result) in enumerate(self.outputs)
        ]
        self.writer = Writer(self.kernel, facts)
        self.lines: list[str] = []

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

    def pointer(self, view: View) -> str:
        """The address of a view's first element."""
        name = self.kernel.buffer(view.base, buffer_name(view.base))
        return name if view.offset == 0 else f"{name} + {self.writer.text(view.offset)}"

    def constant(self, value: Value, packing: str) -> str:
        """A constant operand in a packed form."""
        if value.op is not None:
            raise CuvilError("a packed operand must be a constant", where=str(self.main.loc))
        return self.kernel.buffer(value, "weights", packing=packing)

    def scratch(self, size: Dim) -> str:
        """Scratch memory of ``size`` bytes; may use the symbol of the thread count."""
        self.kernel.scratch = add(self.kernel.scratch or 0, size)
        return self.kernel.special("scratch", "char *", "scratch")

    def plain(self) -> bool:
        """Whether the only output is the contraction itself."""
        return len(self.outputs) == 1 and self.outputs[0][0] is self.main.results[0]

    def epilogue(self, rows: Dims, columns: Dim, batch: Dims = ()) -> None:
        """Write the function that finishes tiles: m runs over ``rows``, n over ``columns``."""
        whole = self.main.type.dtype == I32
        element = "const cuvil::vi_element*"
        cast = f"  {element} sums = ({element})tile;\n" if whole else ""
        tile = f"{'sums' if whole else 'tile'}[row * ld + column]"
        function = _TileFunction(self, self.main, tile, batch, rows, columns)
        for (inside, result), name in zip(self.outputs, self.names, strict=True):
            point, index = function.point, function.index
            point.store(result, name, index, point.element(inside, index))
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


class _TileFunction:
    """A function over the elements of a tile: ``point`` takes what happens at ``index``."""

    def __init__(
        self, call: Call, main: Op, element: str, batch: Dims, rows: Dims, columns: Dim
    ) -> None:
        loops = [Loop("batch", product(batch)), Loop("m", product(rows)), Loop("n", columns)]
        b, m, n = (symbol(x.name) for x in loops)
        facts = loop_facts(call.facts, loops)
        self.batch = "batch" if batch else ""
        self.index: Index = (
            *delinearize(b if batch else 0, batch, facts),
            *delinearize(m, rows, facts),
            n if columns != 1 else 0,
        )

        def tile(point: Point, at: Index) -> str:
            if at != self.index:
                place = str(main.loc)
                raise CuvilError("an epilogue reads its tile out of place", where=place)
            return element

        writer = Writer(call.kernel, facts, loop_names(loops))
        writer.bound[id(main.results[0])] = tile
        self.row = Point(writer, 2)
        self.point = Point(writer, 3)
        if columns != 1:
            self.point.hoist_to(self.row, [loops[-1].name])

    def text(self, name: str, tile: str, before: str = "") -> str:
        """The function; ``tile`` declares that parameter."""
        body = "\n".join(self.point.lines)
        row = "".join(f"{line}\n" for line in self.row.lines)
        return (
            f"void {name}(const void* context, {tile}, int64_t ld, "
            f"int64_t {self.batch}, int64_t m0,\n"
            f"                 int64_t rows, int64_t n0, int64_t columns) {{\n@UNPACK@\n{before}"
            "  for (int64_t row = 0; row < rows; ++row) {\n"
            f"    const int64_t m = m0 + row;\n{row}"
            "    CUVIL_INDEPENDENT\n"
            "    for (int64_t column = 0; column < columns; ++column) {\n"
            "      const int64_t n = n0 + column;\n"
            f"{body}\n    }}\n  }}\n}}\n"
        )
