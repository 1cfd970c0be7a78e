"""The environment is read in cli and options.py; a child process may inherit it whole."""

from __future__ import annotations

import ast

import pytest

from tests.laws.source import Source, expect_none, sources

READERS = ("cli", "options")
NAMES = ("environ", "environb", "getenv", "getenvb", "putenv", "unsetenv")


def faults(source: Source) -> list[str]:
    """Reads of the environment; ``{**os.environ, ...}`` hands it on without reading it."""
    if source.room in READERS:
        return []
    handed_on = {
        id(value)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if key is None
    }
    found = []
    for node in ast.walk(source.tree):
        reads = isinstance(node, ast.Attribute) and node.attr in NAMES and id(node) not in handed_on
        named = isinstance(node, ast.ImportFrom) and node.module == "os" and any(
            alias.name in NAMES for alias in node.names
        )
        if reads or named:
            found.append(f"{source.at(node)}: take a frozen Options instead of the environment")
    return found


def test_the_environment_is_read_in_two_places() -> None:
    expect_none(fault for s in sources() for fault in faults(s))


@pytest.mark.parametrize(
    "text",
    ["import os\nx = os.environ['A']", "import os\nos.getenv('A')", "from os import environ"],
)
def test_reads_are_seen(text: str) -> None:
    assert len(faults(Source.of("ir/a.py", text))) == 1
    assert faults(Source.of("cli/a.py", text)) == []


def test_handing_it_on_passes() -> None:
    assert faults(Source.of("build/a.py", "import os\ne = {**os.environ, 'A': '1'}")) == []
