"""What changes a framework's or Python's own global state does it alone: see frontends/alone.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.laws.source import Source, expect_none, sources

# Functions that set something for a whole process.
SETTERS = (
    "catch_warnings", "simplefilter", "filterwarnings", "setLevel", "fork_rng", "setstate",
    "set_state", "seed", "manual_seed", "set_default_dtype", "set_default_device",
    "set_fastpath_enabled", "set_num_threads", "use_deterministic_algorithms", "seterr",
)  # fmt: skip
OWN = ("torch", "holder", "env", "config")  # names that stand for a part of torch
FOLDERS = ("frontends/", "integrations/dynamo/")  # a benchmark has a process of its own
# Of a generator of its own, not torch's.
LOCAL = ("torch.Generator().manual_seed",)
Function = ast.FunctionDef


def _changes(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        text = ast.unparse(node.func)
        if text in ("setattr", "delattr"):
            return _root(node.args[0]) in OWN
        last = text.rsplit(".", 1)[-1]
        patched = last == "patch" and "config" in text
        return (last in SETTERS and text not in LOCAL) or patched
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return _root(node.value) in OWN
    return False


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _holds(function: Function) -> bool:
    return "ALONE.held()" in ast.unparse(function)


def _functions(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def faults(source: Source) -> list[str]:
    """Functions that change such state and don't hold the lock, nor are called in one that does:
    private ones of the same file may have their callers do it, all of them."""
    if not source.path.startswith(FOLDERS):
        return []
    functions = list(_functions(source.tree))
    found = []
    for function in functions:
        if not any(map(_changes, ast.walk(function))) or _holds(function):
            continue
        callers = [
            f for f in functions if f is not function and any(
                isinstance(n, ast.Call) and ast.unparse(n.func) == function.name
                for n in ast.walk(f)
            )
        ]  # fmt: skip
        private = function.name.startswith("_")
        if not (private and callers and all(map(_holds, callers))):
            found.append(f"{source.at(function)}: {function.name} changes global state")
    return found


def test_global_state_is_changed_alone() -> None:
    expect_none(fault for s in sources() for fault in faults(s))


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n torch.max_pool1d = 1",
        "def f():\n setattr(torch.nn.functional, 'a', 1)",
        "def f():\n delattr(holder, 'a')",
        "def f():\n torch.set_default_dtype(1)",
        "def f():\n with warnings.catch_warnings():\n  pass",
        "def f():\n with torch._dynamo.config.patch(a=1):\n  pass",
        "def f():\n np.random.set_state(a)",
        "def _f():\n torch.manual_seed(0)\ndef g():\n with ALONE.held():\n  _f()\ndef h():\n _f()",
    ],
)
def test_a_change_without_the_lock_is_seen(text: str) -> None:
    assert len(faults(Source.of("frontends/a.py", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n with ALONE.held():\n  torch.max_pool1d = 1",
        "@ALONE.held()\ndef f():\n torch.set_default_dtype(1)",
        "def f():\n return torch.Generator().manual_seed(0)",
        "def _f():\n torch.manual_seed(0)\ndef g():\n with ALONE.held():\n  _f()",
    ],
)
def test_a_change_under_the_lock_passes(text: str) -> None:
    assert faults(Source.of("frontends/a.py", text)) == []
