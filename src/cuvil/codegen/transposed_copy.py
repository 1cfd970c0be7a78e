"""Maps that only turn a matrix round: blocks of it are transposed in registers."""

from __future__ import annotations

from dataclasses import dataclass

from cuvil.analysis.index_map import affine, trace_view
from cuvil.codegen.loops import Loop, close_loops, open_loops
from cuvil.codegen.scalar import Access, Writer, buffer_name
from cuvil.ir.core import Value
from cuvil.ir.types import F32
from cuvil.sym.expr import Dim, product
from cuvil.sym.facts import Facts

BLOCK = 64
NARROW = 8
"""Matrices with a side known to be shorter are left to plain loops."""


@dataclass(frozen=True)
class TransposedCopy:
    """``to[outer * to_row + inner] = source[inner * from_row + outer]`` over two of the loops."""

    source: Value
    outer: Loop
    inner: Loop
    load: Dim
    store: Dim
    from_row: Dim
    to_row: Dim


def transposed_copy(
    inside: Value, loops: list[Loop], accesses: list[Access], pair: tuple[int, int], facts: Facts
) -> TransposedCopy | None:
    """The copy that computing ``inside`` amounts to, or None where it is more than that.

    ``accesses`` are those of one element: the load and the store. ``pair`` are the positions of
    the loops in which the load and the store have unit stride.
    """
    view = trace_view(inside, facts)
    if view is None or view.base.op is not None or inside.type.dtype != F32 or len(accesses) != 2:
        return None
    outer, inner = (loops[i] for i in pair)
    if any(isinstance(x.extent, int) and x.extent < NARROW for x in (outer, inner)):
        return None
    load, store = (affine(x.offset, (outer.name, inner.name)) for x in accesses)
    if load is None or store is None or load[1][0] != 1 or store[1][1] != 1:
        return None
    read, written = (x.offset for x in accesses)
    return TransposedCopy(view.base, outer, inner, read, written, load[1][1], store[1][0])


def write_transposed_copy(
    writer: Writer, loops: list[Loop], copy: TransposedCopy, out: str
) -> tuple[list[str], Dim]:
    """The lines of the kernel's range, and how many blocks it counts."""
    kernel, text = writer.kernel, writer.text
    kernel.includes.add("transpose.hpp")
    source = kernel.buffer(copy.source, buffer_name(copy.source))
    pair = {"block_outer": copy.outer, "block_inner": copy.inner}
    others = [x for x in loops if x not in pair.values()]
    blocks = [Loop(var, (x.extent + BLOCK - 1) // BLOCK) for var, x in pair.items()]
    shared = [*others, *blocks]
    lines = open_loops(writer, shared, len(shared), 1, mark_inner=False)
    for block, loop in pair.items():
        lines.append(f"    const int64_t {loop.var} = {block} * {BLOCK};")
    rows, columns = (
        f"cuvil::minimum({BLOCK}, {text(x.extent)} - {x.var})" for x in (copy.outer, copy.inner)
    )
    lines += [
        f"    cuvil::transpose_block({out} + ({text(copy.store)}), {text(copy.to_row)},",
        f"                           {source} + ({text(copy.load)}), {text(copy.from_row)},",
        f"                           {rows}, {columns});",
    ]
    return lines + close_loops(1, 1), product(x.extent for x in shared)
