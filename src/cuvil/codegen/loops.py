"""Loop nests: which loops become one, which are shared among threads, and their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuvil.analysis.index_map import LOCAL, affine
from cuvil.codegen.scalar import Access, Writer
from cuvil.sym.expr import Dim, add, mul, product, symbols_of
from cuvil.sym.facts import Facts


@dataclass(frozen=True)
class Loop:
    """``for var in 0 .. extent``; ``name`` is the variable as a symbol of expressions."""

    var: str
    extent: Dim

    @property
    def name(self) -> str:
        return LOCAL + self.var


def loop_facts(facts: Facts, loops: Sequence[Loop]) -> Facts:
    """The facts, and the range of each loop's variable."""
    return facts.with_loops({x.name: (0, add(x.extent, -1)) for x in loops})


def loop_names(loops: Sequence[Loop]) -> dict[str, str]:
    """The C++ name of each loop's variable."""
    return {x.name: x.var for x in loops}


def merge_loops(
    loops: Sequence[Loop], accesses: Sequence[Access], fixed: frozenset[str] = frozenset()
) -> tuple[list[Loop], dict[str, Dim]]:
    """Join neighbours that every access walks evenly; the inner variable then runs over both.

    Returns the loops and the renaming of the variables that vanish (to 0). Loops in ``fixed``
    are left alone.
    """
    result = list(loops)
    rename: dict[str, Dim] = {}
    at = len(result) - 2
    while at >= 0:
        outer, inner = result[at], result[at + 1]
        if not {outer.var, inner.var} & fixed and all(
            _walks_evenly(a, outer, inner) for a in accesses
        ):
            result[at : at + 2] = [Loop(inner.var, mul(outer.extent, inner.extent))]
            rename[outer.name] = 0
        at -= 1
    return result, rename


def _walks_evenly(access: Access, outer: Loop, inner: Loop) -> bool:
    used = symbols_of(access.offset)
    if outer.name not in used and inner.name not in used:
        return True
    if not access.pure:
        return False
    split = affine(access.offset, [outer.name, inner.name])
    if split is None:
        return False
    slope_outer, slope_inner = split[1]
    return slope_outer == mul(slope_inner, inner.extent)


def parallel_count(loops: Sequence[Loop]) -> int:
    """How many leading loops are flattened into the range that threads share: all but the
    innermost, at most until they have enough iterations for a few threads."""
    if len(loops) <= 1:
        return len(loops)
    count, total = 0, 1
    for loop in loops[:-1]:
        count += 1
        if isinstance(loop.extent, int):
            total *= loop.extent
            if total >= 16:
                break
    return count


def open_loops(
    writer: Writer, loops: Sequence[Loop], shared: int, indent: int, mark_inner: bool = True
) -> list[str]:
    """The opening lines: the shared range first, then plain loops; the innermost is marked as
    independent."""
    lines: list[str] = []
    pad = "  " * indent
    if shared == 1 and len(loops) == 1:
        if mark_inner:
            lines.append(f"{pad}CUVIL_INDEPENDENT")
        var = loops[0].var
        lines.append(f"{pad}for (int64_t {var} = begin; {var} < end; ++{var}) {{")
        return lines
    if shared:
        lines.append(f"{pad}for (int64_t item = begin; item < end; ++item) {{")
        lines += unflatten(writer, loops[:shared], "item", indent + 1)
        indent += 1
    for at, loop in enumerate(loops[shared:], shared):
        pad = "  " * indent
        if mark_inner and at == len(loops) - 1:
            lines.append(f"{pad}CUVIL_INDEPENDENT")
        extent = writer.text(loop.extent)
        lines.append(f"{pad}for (int64_t {loop.var} = 0; {loop.var} < {extent}; ++{loop.var}) {{")
        indent += 1
    return lines


def depth(loops: Sequence[Loop], shared: int) -> int:
    """How many braces ``open_loops`` leaves open."""
    return (1 if shared else 0) + len(loops) - shared


def unflatten(writer: Writer, loops: Sequence[Loop], item: str, indent: int) -> list[str]:
    """Lines that give each loop variable its value from the flat ``item``."""
    pad = "  " * indent
    lines = []
    for at, loop in enumerate(loops):
        inner = writer.text(product(x.extent for x in loops[at + 1 :]))
        text = item if inner == "1" else f"{item} / {inner}"
        if at > 0:
            text = f"({text}) % {writer.text(loop.extent)}" if inner != "1" else (
                f"{item} % {writer.text(loop.extent)}"
            )
        lines.append(f"{pad}const int64_t {loop.var} = {text};")
    return lines


def close_loops(count: int, indent: int) -> list[str]:
    """Closing braces."""
    return ["  " * (indent + i) + "}" for i in reversed(range(count))]
