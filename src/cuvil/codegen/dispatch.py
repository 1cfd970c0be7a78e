"""Which version of a kernel a call runs, as C++: comparisons of the symbols, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuvil.passes.variants import When


def condition(when: When, names: Mapping[str, str]) -> str:
    """``n_batch >= 16 && n_batch < 64``; empty where there is nothing to ask."""
    parts = []
    for name, (low, high) in when.items():
        if high == low + 1:
            parts.append(f"{names[name]} == {low}")
            continue
        if low > 0:
            parts.append(f"{names[name]} >= {low}")
        if high is not None:
            parts.append(f"{names[name]} < {high}")
    return " && ".join(parts)


def dispatch(texts: Sequence[tuple[str, str]], indent: str) -> str:
    """Statements that run the first call whose condition holds; the last has none."""
    *ranges, (_, general) = texts
    lines = ""
    for number, (asked, call) in enumerate(ranges):
        lines += f"{indent}{'else ' if number else ''}if ({asked or 'true'})\n{indent}  {call}\n"
    return lines + (f"{indent}else\n{indent}  {general}\n" if ranges else f"{indent}{general}\n")
