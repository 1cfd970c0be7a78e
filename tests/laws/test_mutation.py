"""Only ir and rewrite change a graph."""

from __future__ import annotations

import ast

import pytest

from tests.laws.source import Source, expect_none, sources

OWNERS = ("ir", "rewrite")
MUTATORS = (
    "_append", "_insert_before", "_set_operand", "_set_operands", "_unlink", "_drop", "_add_arg",
)  # fmt: skip
FIELDS = ("operands", "results", "uses", "attrs", "regions")
LINKS = ("first", "last", "prev", "next", "owner", "block", "parent")
# A frontend's function gets its arguments one by one, before there is a graph to rewrite.
EXCEPTIONS = {"frontends/emitter.py": ("_add_arg",)}


def _stored(node: ast.AST) -> str:
    """The graph field that this store changes, or nothing. ``self.x = ...`` is one's own."""
    if not isinstance(node, (ast.Attribute, ast.Subscript)):
        return ""
    if not isinstance(node.ctx, (ast.Store, ast.Del)):
        return ""
    target = node
    if isinstance(target, ast.Subscript):
        inner = target.value
        if not isinstance(inner, ast.Attribute):
            return ""
        target = inner
    own = isinstance(target.value, ast.Name) and target.value.id == "self"
    wanted = FIELDS if isinstance(node, ast.Subscript) else FIELDS + LINKS
    return target.attr if target.attr in wanted and not own else ""


def faults(source: Source) -> list[str]:
    """Calls of the graph's mutators, and stores into its fields."""
    if source.room in OWNERS:
        return []
    found = []
    allowed = EXCEPTIONS.get(source.path, ())
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            own = isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
            if name in MUTATORS and name not in allowed and not own:
                found.append(f"{source.at(node)}: {name} belongs to the builder and the rewriter")
        elif field := _stored(node):
            found.append(f"{source.at(node)}: it stores into {field} of a graph")
    return found


def test_the_graph_changes_through_the_rewriter_alone() -> None:
    expect_none(fault for s in sources() for fault in faults(s))


@pytest.mark.parametrize(
    "text",
    [
        "block._append(op)",
        "op._set_operand(0, v)",
        "op.attrs['axis'] = 1",
        "del op.attrs['axis']",
        "op.operands = []",
        "value.uses[k] = op",
        "op.next = None",
    ],
)
def test_changes_are_seen(text: str) -> None:
    assert len(faults(Source.of("passes/a.py", text))) == 1
    assert faults(Source.of("rewrite/a.py", text)) == []


@pytest.mark.parametrize("text", ["attrs['axis'] = 1", "x = op.attrs['axis']", "self.block = b"])
def test_other_code_passes(text: str) -> None:
    assert faults(Source.of("passes/a.py", text)) == []
