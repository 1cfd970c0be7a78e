"""Which version of a kernel a call runs, as C++: by comparisons of the symbols, or by a table that
may be changed while the process runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuvil.codegen.versions import Version
from cuvil.ir.core import Op
from cuvil.passes.variants import When

Texts = Sequence[tuple[Version, str]]  # versions with their calls, that for all sizes first


class Comparisons:
    """Runs the first version whose range holds, else the one for all sizes."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def text(self, op: Op, texts: Texts, indent: str, outside: bool) -> str:
        """Statements that run one of the versions; ``outside`` all control flow or not."""
        (_, general), *ranges = texts
        lines = ""
        for number, (version, call) in enumerate(ranges):
            asked = condition(version.when, self.names)
            lines += f"{indent}{'else ' if number else ''}if ({asked})\n{indent}  {call}\n"
        if not ranges:
            return f"{indent}{general}\n"
        return f"{lines}{indent}else\n{indent}  {general}\n"


@dataclass
class WayTable:
    """A table from ranges of sizes and kernel calls to versions. ``ranges`` are asked in order, the
    last is everything; ``calls`` are those with several versions: the op, and the versions, that
    for all sizes first."""

    names: Mapping[str, str]
    ranges: Sequence[When]
    calls: list[tuple[Op, Texts]] = field(default_factory=list)

    def text(self, op: Op, texts: Texts, indent: str, outside: bool) -> str:
        """Statements that run one of the versions. Calls inside control flow are not measured
        alone, and so are chosen by comparisons."""
        if not outside or len(texts) < 2:
            fixed = [(version, call) for version, call in texts if version.is_fixed]
            return Comparisons(self.names).text(op, fixed, indent, outside)
        number = len(self.calls)
        self.calls.append((op, texts))
        return _switch(f"timed.way({number})", [call for _, call in texts], indent)

    def opening(self) -> str:
        """What stands at the beginning of the entry, behind the symbols."""
        return "  const cuvil::RetuneCall timed(range_of(rc.symbols), rc.symbols);\n"

    def initial(self) -> list[list[int]]:
        """The way of each call in each range: the first version that the range implies."""
        return [
            [_first([version for version, _ in texts], when) for _, texts in self.calls]
            for when in self.ranges
        ]

    def before(self, symbols: str, count: int) -> str:
        """What stands before the entry: which range a call is in, and the table. ``symbols`` are
        declarations of the ``count`` symbols' values in an array of that name."""
        text = f"static int32_t range_of(const int64_t* symbols) {{\n  (void)symbols;\n{symbols}"
        for number, when in enumerate(self.ranges[:-1]):
            text += f"  if ({condition(when, self.names)}) return {number};\n"
        text += f"  return {len(self.ranges) - 1};\n}}\n\n"
        rows = ["  " + "".join(f"{way}, " for way in row) + "\n" for row in self.initial()]
        sizes = (len(self.ranges), len(self.calls), count)
        text += f"static uint8_t ways[{max(1, sizes[0] * sizes[1])}] = {{\n{''.join(rows)}}};\n"
        text += f"static int64_t taken[{sizes[0]}];\n"
        return text + f"static int64_t ring[{sizes[0]} * cuvil::kRetuneRing * {1 + count}];\n\n"

    def after(self, opening: str, count: int) -> str:
        """What stands behind the entry: one call by one way, alone. ``opening`` declares symbols
        and places in the workspace."""
        cases = "".join(
            f"    case {number}:\n{_switch('way', [c for _, c in texts], '      ')}      break;\n"
            for number, (_, texts) in enumerate(self.calls)
        )
        numbers = f"{len(self.ranges)}, {len(self.calls)}, {count}"
        return (
            "\nstatic void run_alone(const RunContext& rc, int32_t call, int32_t way) {\n"
            f"  (void)rc, (void)way;\n{opening}  switch (call) {{\n{cases}    default:\n"
            "      break;\n  }\n}\n\n}  // namespace cuvil::model\n\nnamespace cuvil {\n"
            f"const RetuneTables retune_tables = {{{numbers}, model::ways, model::taken,\n"
            "                                     model::ring, model::run_alone};\n"
        )


def condition(when: When, names: Mapping[str, str]) -> str:
    """``n_batch >= 16 && n_batch < 64``"""
    parts = []
    for name, (low, high) in when.items():
        if high == low + 1:
            parts.append(f"{names[name]} == {low}")
            continue
        if low > 0 or high is None:
            parts.append(f"{names[name]} >= {low}")
        if high is not None:
            parts.append(f"{names[name]} < {high}")
    return " && ".join(parts)


def _switch(value: str, calls: Sequence[str], indent: str) -> str:
    general, *others = calls
    lines = f"{indent}switch ({value}) {{\n"
    for number, call in enumerate(others, 1):
        lines += f"{indent}  case {number}:\n{indent}    {call}\n{indent}    break;\n"
    return f"{lines}{indent}  default:\n{indent}    {general}\n{indent}}}\n"


def _first(versions: Sequence[Version], when: When) -> int:
    for number, version in enumerate(versions):
        if version.is_fixed and version.when and version.when.items() <= when.items():
            return number
    return 0
