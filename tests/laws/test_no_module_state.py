"""No mutable module state: names at the top of a file are constants, whatever their type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.laws.source import Source, expect_none, sources

CHANGES = (
    "append", "add", "update", "pop", "popitem", "setdefault", "clear", "extend", "insert",
    "remove", "discard", "sort", "reverse", "appendleft", "popleft",
)  # fmt: skip
STATEFUL = ("Lock", "RLock", "local", "ContextVar", "defaultdict", "Counter", "deque", "count",
            "WeakValueDictionary", "WeakKeyDictionary", "WeakSet", "SimpleNamespace")  # fmt: skip
# The one registry of libraries and their thread pool: a process has one pool, however many
# artifacts it loads.
EXCEPTIONS = ("runtime/pool.py",)
Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _top_names(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        names |= {t.id for t in targets if isinstance(t, ast.Name)}
    return names


def _inside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, Functions):
            yield from ast.walk(node)


def _changed(node: ast.AST) -> str:
    """The name whose object this node changes in place."""
    target: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        target = node.func.value if node.func.attr in CHANGES else None
    elif isinstance(node, (ast.Subscript, ast.Attribute)):
        target = node.value if isinstance(node.ctx, (ast.Store, ast.Del)) else None
    return target.id if isinstance(target, ast.Name) else ""


def _local_names(tree: ast.Module) -> set[str]:
    """Names bound inside functions, which hide those at the top."""
    found = set()
    for node in _inside_functions(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def faults(source: Source) -> list[str]:
    """``global``, changes of a top-level object inside a function, and stateful objects."""
    if source.path in EXCEPTIONS:
        return []
    found = {}
    tops = _top_names(source.tree) - _local_names(source.tree)
    for node in _inside_functions(source.tree):
        if isinstance(node, ast.Global):
            found[id(node)] = f"{source.at(node)}: global {', '.join(node.names)}"
        elif _changed(node) in tops:
            found[id(node)] = f"{source.at(node)}: it changes {_changed(node)}"
    for node in source.tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for call in ast.walk(node.value):
            if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in STATEFUL:
                found[id(call)] = f"{source.at(node)}: {ast.unparse(call.func)} at the top"
    return list(found.values())


def test_no_module_state() -> None:
    expect_none(fault for s in sources() for fault in faults(s))


@pytest.mark.parametrize(
    "text",
    [
        "_C = {}\ndef f(): _C['a'] = 1",
        "_C = []\ndef f(): _C.append(1)",
        "_C = {}\ndef f(): del _C['a']",
        "_C: dict = {}\nclass A:\n def f(self): _C.update(a=1)",
        "N = 0\ndef f():\n global N\n N += 1",
        "import threading\nL = threading.Lock()",
        "class A: pass\nS = A()\ndef f(): S.value = 1",
    ],
)
def test_state_is_seen(text: str) -> None:
    assert len(faults(Source.of("ir/a.py", text))) == 1
    assert faults(Source.of(EXCEPTIONS[0], text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "T = {'a': 1}\ndef f(): return T['a']",
        "def f():\n t = {}\n t['a'] = 1\n return t",
        "T = {}\ndef f(T): T['a'] = 1",
        "T = {}\nT['a'] = 1",
    ],
)
def test_constants_pass(text: str) -> None:
    assert faults(Source.of("ir/a.py", text)) == []
