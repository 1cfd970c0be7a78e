"""Write docs/reference/cli.md from the command line's own help.

``python -m tools.cli_reference`` writes the page; with ``--check`` it only says whether the page
is what it would write.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from cuvil.cli.main import app
from tools.pages import write_or_check

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/cli.md"
_HEAD = """# Command line

Written by `python -m tools.cli_reference` from what `cuvil VERB --help` says; a test fails when it
is out of date.
"""


def page() -> str:
    """The text of docs/reference/cli.md."""
    root = get_command(app)
    return "\n".join([_HEAD, _help(root), *_sections("cuvil", root)])


def _sections(name: str, group: Any) -> Iterator[str]:
    for verb, command in group.commands.items():
        usage = " ".join([name, verb, *(_metavar(p) for p in _arguments(command))])
        yield f"## {name} {verb}\n"
        if hasattr(command, "commands"):
            yield _help(command)
            yield from (text.replace("## ", "### ", 1) for text in _sections(usage, command))
            continue
        yield f"    {usage} [OPTIONS]\n"
        yield _help(command)
        yield _parameters(command)


def _arguments(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "argument"]


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _help(command: Any) -> str:
    """Paragraphs; those that are examples as code."""
    lines = []
    for line in inspect.cleandoc(command.help or "").splitlines():
        is_code = line.strip().startswith("cuvil ")
        lines.append(f"    {line.strip()}" if is_code else line)
    return "\n".join(lines) + "\n"


def _parameters(command: Any) -> str:
    rows = ["| | |", "|---|---|"]
    for p in [*_arguments(command), *(p for p in command.params if p not in _arguments(command))]:
        names = ", ".join(f"`{name}`" for name in sorted(p.opts, key=len))
        if p.param_type_name == "argument":
            names = f"`{_escaped(_metavar(p))}`"
        elif not getattr(p, "is_flag", False):
            names += f" `{_escaped(_metavar(p))}`"
        default = p.default if isinstance(p.default, (str, int, float)) else None
        shown = f" Default: `{default}`." if default not in (None, False, "") else ""
        rows.append(f"| {names} | {_escaped(p.help or '')}{shown} |")
    return "\n".join(rows) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """0 done, 1 the page is out of date, 2 wrong use."""
    return write_or_check(arguments, PAGE, page, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
