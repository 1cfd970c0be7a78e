"""Kernels of maps: one loop nest over the domain, everything computed in place."""

from __future__ import annotations

from itertools import product as combinations

from cuvil.analysis.index_map import LOCAL, Index, affine
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.loops import (
    Loop,
    close_loops,
    depth,
    loop_facts,
    loop_names,
    merge_loops,
    open_loops,
    parallel_count,
)
from cuvil.codegen.scalar import Access, Point, Writer
from cuvil.codegen.transposed_copy import BLOCK, transposed_copy, write_transposed_copy
from cuvil.ir.core import Op, Value
from cuvil.ir.types import Shape
from cuvil.sym.expr import Dim, add, mul, product, symbol, symbols_of
from cuvil.sym.facts import Facts

MAX_PIECES = 16
TILE = 16

Piece = tuple[tuple[Dim, Dim], ...]  # (start, extent) of each dimension


def map_kernel(op: Op, facts: Facts) -> Kernel:
    """The kernel of a fused op whose outputs all have the domain's shape."""
    kernel = Kernel(op.attrs["name"])
    block = op.regions[0]
    outputs = list(zip(block.terminator.operands, op.results, strict=True))
    domain: Shape = op.attrs["domain"]
    names = [kernel.buffer(result, f"out{i}", out=True) for i, (_, result) in enumerate(outputs)]
    pieces = domain_pieces(kernel, domain, outputs, names, facts)
    for number, piece in enumerate(pieces):
        _nest(kernel, number, piece, domain, outputs, names, facts)
    return kernel


def piece_index(piece: Piece) -> tuple[Index, list[Loop]]:
    """The index of an element of the piece, and the loops that walk over it."""
    index: list[Dim] = []
    loops = []
    for axis, (start, extent) in enumerate(piece):
        if extent == 1:
            index.append(start)
            continue
        loops.append(Loop(f"i{axis}", extent))
        index.append(add(start, symbol(loops[-1].name)))
    return tuple(index), loops


def dry_run(
    kernel: Kernel, piece: Piece, outputs: list[tuple[Value, Value]], names: list[str], facts: Facts
) -> Writer:
    """What writing one element of each output touches, as the writer's ``accesses``."""
    index, loops = piece_index(piece)
    writer = Writer(kernel, loop_facts(facts, loops), loop_names(loops))
    point = Point(writer, 0)
    for (inside, result), name in zip(outputs, names, strict=True):
        point.store(result, name, index, point.element(inside, index))
    return writer


def domain_pieces(
    kernel: Kernel, domain: Shape, outputs: list[tuple[Value, Value]], names: list[str],
    facts: Facts,
) -> list[Piece]:  # fmt: skip
    """The domain, cut where a concat or pad changes sides, so that no piece has to ask."""
    whole: Piece = tuple((0, d) for d in domain)
    if any(d == 0 for d in domain):
        return []
    writer = dry_run(kernel, whole, outputs, names, facts)
    cuts = _cuts(writer.accesses, domain)
    lines: list[list[tuple[Dim, Dim]]] = []
    for axis, d in enumerate(domain):
        points = _ordered(cuts.get(axis, []), d, facts)
        ends = [*points[1:], d] if points else []
        lines.append([(a, add(b, mul(a, -1))) for a, b in zip(points, ends)] or [(0, d)])
    pieces = list(combinations(*lines))
    return pieces if 1 < len(pieces) <= MAX_PIECES else [whole]


def _cuts(accesses: list[Access], domain: Shape) -> dict[int, list[Dim]]:
    """Pairs of decisions ``i + c`` against ``end`` (recorded one after the other, or against 0)
    as cut points of the loop over i."""
    cuts: dict[int, list[Dim]] = {}
    previous: tuple[int, Dim] | None = None
    for access in accesses:
        if access.pure:
            previous = None
            continue
        used = [n for n in symbols_of(access.offset) if n.startswith(f"{LOCAL}i")]
        if len(used) == 1:
            split = affine(access.offset, used)
            if split is not None and split[1] == (1,):
                previous = (int(used[0].removeprefix(f"{LOCAL}i")), split[0])
                cuts.setdefault(previous[0], []).append(mul(split[0], -1))
                continue
        if previous is not None and not used:
            axis, constant = previous
            cuts.setdefault(axis, []).append(add(access.offset, mul(constant, -1)))
        previous = None
    return cuts


def _ordered(points: list[Dim], extent: Dim, facts: Facts) -> list[Dim]:
    """0 and the proved-inside cut points in proved order; nothing where order isn't proved."""
    inside: list[Dim] = [0]
    for p in dict.fromkeys(facts.simplify(p) for p in points):
        if not (facts.positive(p) and facts.less(p, extent)):
            if facts.nonnegative(mul(p, -1)) or facts.nonnegative(add(p, mul(extent, -1))):
                continue
            return []
        at = 0
        while at < len(inside) and facts.less(inside[at], p):
            at += 1
        if at < len(inside) and not facts.less(p, inside[at]):
            return []
        inside.insert(at, p)
    return inside if len(inside) > 1 else []


def _nest(
    kernel: Kernel, number: int, piece: Piece, domain: Shape,
    outputs: list[tuple[Value, Value]], names: list[str], facts: Facts,
) -> None:  # fmt: skip
    dry = dry_run(kernel, piece, outputs, names, facts)
    index, loops = piece_index(piece)
    merged, rename = merge_loops(loops, dry.accesses)
    tile = _transposing_pair(merged, dry.accesses, rename)
    writer = Writer(kernel, loop_facts(facts, loops), loop_names(loops), rename)
    if tile is not None and len(outputs) == 1:
        copy = transposed_copy(outputs[0][0], merged, dry.accesses, tile, facts)
        if copy is not None:
            lines, items = write_transposed_copy(writer, merged, copy, names[0])
            _share(kernel, number, lines, writer.text(items), str(BLOCK * BLOCK))
            return
    if tile is not None:
        lines, items, work, indent, closing = _tiled(writer, merged, tile)
    else:
        shared = parallel_count(merged)
        lines = open_loops(writer, merged, shared, 1)
        indent = 1 + depth(merged, shared)
        closing = indent - 1
        items = product(x.extent for x in merged[:shared])
        work = product(x.extent for x in merged[shared:])
    point, row = Point(writer, indent), Point(writer, indent - 1)
    if merged and tile is None:
        point.hoist_to(row, [merged[-1].name, *rename])
    for (inside, result), name in zip(outputs, names, strict=True):
        point.store(result, name, index, point.element(inside, index))
    # In front of the innermost loop and its mark.
    lines[len(lines) - 2 : len(lines) - 2] = row.lines
    lines += point.lines + close_loops(closing, 1)
    if not merged:
        lines = ["  " + x for x in lines]
    cost = max(1, len(point.lines) // 4)
    _share(kernel, number, lines, writer.text(items), writer.text(mul(work, cost)))


def _share(kernel: Kernel, number: int, lines: list[str], count: str, work: str) -> None:
    """Loops over ``count`` items of ``work`` elements each, which threads share."""
    suffix = str(number) if number else ""
    kernel.body += (
        f"void range{suffix}(void* context, int64_t begin, int64_t end, int32_t) {{\n"
        "@UNPACK@\n" + "\n".join(lines) + "\n}\n"
    )
    kernel.launch += (
        f"  cuvil::parallel_for(rc.pool, {count}, cuvil::grain({work}), range{suffix}, "
        "(void*)&k);\n"
    )


def _slope(access: Access, var: str) -> Dim | None:
    split = affine(access.offset, [var])
    return None if split is None else split[1][0]


def _transposing_pair(
    loops: list[Loop], accesses: list[Access], rename: dict[str, Dim]
) -> tuple[int, int] | None:
    """Positions of two loops to tile when one access is unit-stride in an outer loop while
    another is in the innermost one: a transposition."""
    if len(loops) < 2:
        return None
    inner = len(loops) - 1
    for access in accesses:
        if not access.pure or _slope(access, loops[inner].name) in (0, 1, None):
            continue
        for at in reversed(range(inner)):
            if _slope(access, loops[at].name) == 1:
                return at, inner
    return None


def _tiled(
    writer: Writer, loops: list[Loop], tile: tuple[int, int]
) -> tuple[list[str], Dim, Dim, int, int]:
    """Blocks of TILE x TILE over the two loops; all other loops and the blocks are shared."""
    outer, inner = loops[tile[0]], loops[tile[1]]
    others = [x for x in loops if x not in (outer, inner)]
    blocks = [
        Loop("block_outer", (outer.extent + TILE - 1) // TILE),
        Loop("block_inner", (inner.extent + TILE - 1) // TILE),
    ]
    shared = [*others, *blocks]
    lines = open_loops(writer, shared, len(shared), 1, mark_inner=False)
    if len(shared) == 1:
        raise AssertionError("two blocks are always shared")
    for loop, block in ((outer, "block_outer"), (inner, "block_inner")):
        last = f"cuvil::minimum({block} * {TILE} + {TILE}, {writer.text(loop.extent)})"
        lines.append(f"    const int64_t {loop.var}_end = {last};")
    lines.append(
        f"    for (int64_t {outer.var} = block_outer * {TILE}; {outer.var} < {outer.var}_end; "
        f"++{outer.var}) {{"
    )
    lines.append("      CUVIL_INDEPENDENT")
    lines.append(
        f"      for (int64_t {inner.var} = block_inner * {TILE}; {inner.var} < {inner.var}_end; "
        f"++{inner.var}) {{"
    )
    items = product(x.extent for x in shared)
    return lines, items, TILE * TILE, 4, 3
