"""Files, functions and lines stay small, and every function is annotated."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.laws.source import ROOT, Source, expect_none, sources

FILE_LINES = 400
FUNCTION_LINES = 60
COLUMNS = 100
SUFFIXES = (".py", ".hpp", ".cpp", ".h")
FOLDERS = ("src", "tests", "tools", "bench", "examples")
# Longer than 400 lines for a reason written here, and never longer than 600.
LONG: dict[str, str] = {}
LONG_LINES = 600
Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


def files() -> Iterator[Path]:
    """Every hand-written source file of the repository."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                yield path


def text_faults(name: str, text: str) -> list[str]:
    """A file that is too long, and lines that are too wide."""
    lines = text.splitlines()
    limit = LONG_LINES if name in LONG else FILE_LINES
    found = [f"{name}: {len(lines)} lines, more than {limit}"] if len(lines) > limit else []
    for i, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            found.append(f"{name}:{i}: {len(line)} columns")
    return found


def function_faults(name: str, tree: ast.Module) -> list[str]:
    """Functions that are too long."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, Functions):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES:
                found.append(f"{name}:{node.lineno}: {node.name} has {length} lines")
    return found


def annotation_faults(source: Source) -> list[str]:
    """Functions with a parameter or a result that has no annotation."""
    found = []
    for node in ast.walk(source.tree):
        if not isinstance(node, Functions):
            continue
        a = node.args
        named = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
        bare = [x.arg for x in named if x and not x.annotation and x.arg not in ("self", "cls")]
        if node.returns is None:
            bare.append("the result")
        if bare:
            found.append(f"{source.at(node)}: {node.name} does not annotate {', '.join(bare)}")
    return found


def test_files_and_lines() -> None:
    faults = [
        fault
        for path in files()
        for fault in text_faults(path.relative_to(ROOT).as_posix(), path.read_text())
    ]
    expect_none(faults)


def test_functions() -> None:
    faults = [
        fault
        for path in files()
        if path.suffix == ".py"
        for fault in function_faults(
            path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())
        )
    ]
    expect_none(faults)


def test_annotations() -> None:
    expect_none(fault for s in sources() for fault in annotation_faults(s))


def test_faults_are_seen() -> None:
    assert "401 lines" in text_faults("a.py", "\n" * 401)[0]
    assert text_faults("a.py", "\n" * 400) == []
    assert "101 columns" in text_faults("a.py", "x" * 101)[0]
    body = "def f():\n" + " x = 1\n" * 60
    assert "f has 61 lines" in function_faults("a.py", ast.parse(body))[0]
    assert function_faults("a.py", ast.parse(body.removesuffix(" x = 1\n"))) == []
    bare = Source.of("ir/a.py", "def f(self, a, *b, c: int = 1, **d): ...")
    assert "a, b, d, the result" in annotation_faults(bare)[0]
    assert annotation_faults(Source.of("ir/a.py", "def f(self, a: int) -> None: ...")) == []
