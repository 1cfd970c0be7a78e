"""The source tree, parsed once, for the laws that read it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "cuvil"


@dataclass(frozen=True)
class Source:
    """One Python file: its path below the package (``ir/core.py``) and its syntax tree."""

    path: str
    tree: ast.Module

    @staticmethod
    def of(path: str, text: str) -> Source:
        return Source(path, ast.parse(text))

    @property
    def room(self) -> str:
        """The folder, or the file's own name at the top."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def module(self) -> str:
        """The dotted name."""
        return "cuvil." + self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def at(self, node: ast.AST) -> str:
        return f"src/cuvil/{self.path}:{getattr(node, 'lineno', 1)}"


def expect_none(faults: Iterable[str]) -> None:
    """Fail with all faults, one a line."""
    found = list(faults)
    if found:
        pytest.fail("\n".join([f"{len(found)} fault(s):", *found]), pytrace=False)


@lru_cache(maxsize=1)
def sources() -> tuple[Source, ...]:
    """Every Python file of the package."""
    return tuple(
        Source.of(path.relative_to(PACKAGE).as_posix(), path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    )


@dataclass(frozen=True)
class Import:
    """One import: the dotted name, where, and whether it is lazy or for type checkers alone."""

    name: str
    node: ast.stmt
    lazy: bool
    typing_only: bool


def imports(tree: ast.Module) -> Iterator[Import]:
    """Every import; ``from a import b`` gives ``a.b``, which may name a module or a member."""
    yield from _imports(tree, lazy=False, typing_only=False)


def _imports(node: ast.AST, lazy: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child, lazy, typing_only)
        elif isinstance(child, ast.ImportFrom):
            base = "." * child.level + (child.module or "")
            for alias in child.names:
                yield Import(f"{base}.{alias.name}", child, lazy, typing_only)
        else:
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            typed = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(child, lazy or function, typing_only or typed)
