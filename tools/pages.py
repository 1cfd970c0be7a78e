"""Pages of the documentation that a tool writes: Markdown tables, and writing or checking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


def table(headers: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_or_check(
    arguments: Sequence[str], path: Path, page: Callable[[], str], usage: str | None
) -> int:
    """Write the page; with ``--check`` only say whether the file is what would be written.

    0 done, 1 the file is out of date, 2 wrong use, which prints ``usage``.
    """
    if list(arguments) not in ([], ["--check"]):
        print(usage)
        return 2
    text = page()
    if arguments:
        return 0 if path.exists() and path.read_text(encoding="utf-8") == text else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return 0
