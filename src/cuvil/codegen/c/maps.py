"""Maps in C: plain loops over the domain, everything computed in place."""

from __future__ import annotations

from cuvil.codegen.c.spelling import CWriter
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.loops import Loop, loop_facts, loop_names, merge_loops
from cuvil.codegen.map_kernel import Piece, domain_pieces, dry_run, piece_index
from cuvil.codegen.scalar import Point
from cuvil.ir.core import Op, Value
from cuvil.sym.facts import Facts

Outputs = list[tuple[Value, Value]]


def map_kernel(op: Op, facts: Facts) -> Kernel:
    """The kernel of a fused op whose outputs all have the domain's shape."""
    kernel = Kernel(op.attrs["name"])
    outputs = list(zip(op.regions[0].terminator.operands, op.results, strict=True))
    names = [kernel.buffer(result, f"out{i}", out=True) for i, (_, result) in enumerate(outputs)]
    trial = _copy(kernel)
    for piece in domain_pieces(trial, op.attrs["domain"], outputs, names, facts):
        kernel.body += _nest(kernel, piece, outputs, names, facts)
    return kernel


def _copy(kernel: Kernel) -> Kernel:
    """For trials: what they read must not become an argument."""
    return Kernel(kernel.title, fields=dict(kernel.fields))


def _nest(kernel: Kernel, piece: Piece, outputs: Outputs, names: list[str], facts: Facts) -> str:
    dry = dry_run(_copy(kernel), piece, outputs, names, facts)
    index, loops = piece_index(piece)
    merged, rename = merge_loops(loops, dry.accesses)
    writer = CWriter(kernel, loop_facts(facts, loops), loop_names(loops), rename)
    depth = 1 + len(merged)
    point, row = Point(writer, depth), Point(writer, max(depth - 1, 1))
    if merged:
        point.hoist_to(row, [merged[-1].name, *rename])
    for (inside, result), name in zip(outputs, names, strict=True):
        point.store(result, name, index, point.element(inside, index))
    lines = opened(writer, merged, 1)
    last = [lines.pop()] if merged else []
    lines += row.lines + last + point.lines + closed(len(merged), 1)
    if not merged or (row.lines and len(merged) == 1):  # names of the whole function
        lines = ["  {", *("  " + line for line in lines), "  }"]
    return "\n".join(lines) + "\n"


def opened(writer: CWriter, loops: list[Loop], indent: int) -> list[str]:
    """The opening lines of loops, one inside the other."""
    return [
        f"{'  ' * (indent + at)}for (ptrdiff_t {x.var} = 0; {x.var} < {writer.text(x.extent)}; "
        f"++{x.var}) {{"
        for at, x in enumerate(loops)
    ]


def closed(count: int, indent: int) -> list[str]:
    """The closing braces of ``count`` loops."""
    return ["  " * (indent + i) + "}" for i in reversed(range(count))]
