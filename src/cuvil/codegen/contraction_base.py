"""What the kernels of contractions have in common, native and in C: the outputs of the fused op,
where its operands lie, and the element code of a finished tile."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.analysis.index_map import Index, View, delinearize
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.loops import Loop, loop_facts, loop_names
from cuvil.codegen.scalar import Point, Writer, buffer_name
from cuvil.errors import CuvilError
from cuvil.ir.core import Op
from cuvil.sym.expr import Dim, product, symbol
from cuvil.sym.facts import Facts


class Contraction:
    """A fused op around the contraction ``main``, while its kernel is written."""

    writer_type: type[Writer] = Writer

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
        self.writer = self.writer_type(self.kernel, facts)
        self.lines: list[str] = []

    def pointer(self, view: View) -> str:
        """The address of a view's first element."""
        name = self.kernel.buffer(view.base, buffer_name(view.base))
        return name if view.offset == 0 else f"{name} + {self.writer.text(view.offset)}"

    def plain(self) -> bool:
        """Whether the only output is the contraction itself."""
        return len(self.outputs) == 1 and self.outputs[0][0] is self.main.results[0]


class TileElements:
    """What is done to the elements of a tile of ``main``: ``point`` takes what happens at
    ``index``, where b runs over ``batch``, m over ``rows`` and n over ``columns``; ``row`` takes
    what happens once a row. ``element`` is how an element of the tile is spelled."""

    def __init__(
        self, contraction: Contraction, main: Op, element: str, sizes: tuple[Sequence[Dim],
        Sequence[Dim], Dim], depth: int,
    ) -> None:  # fmt: skip
        batch, rows, columns = sizes
        loops = [Loop("batch", product(batch)), Loop("m", product(rows)), Loop("n", columns)]
        b, m, n = (symbol(x.name) for x in loops)
        facts = loop_facts(contraction.facts, loops)
        self.index: Index = (
            *delinearize(b if batch else 0, tuple(batch), facts),
            *delinearize(m, tuple(rows), facts),
            n if columns != 1 else 0,
        )

        def tile(point: Point, at: Index) -> str:
            if at != self.index:
                place = str(main.loc)
                raise CuvilError("an epilogue reads its tile out of place", where=place)
            return element

        writer = contraction.writer_type(contraction.kernel, facts, loop_names(loops))
        writer.bound[id(main.results[0])] = tile
        self.row = Point(writer, depth - 1)
        self.point = Point(writer, depth)
        if columns != 1:
            self.point.hoist_to(self.row, [loops[-1].name])

    def store(self, contraction: Contraction) -> None:
        """Each output's element, stored."""
        for (inside, result), name in zip(contraction.outputs, contraction.names, strict=True):
            self.point.store(result, name, self.index, self.point.element(inside, self.index))
