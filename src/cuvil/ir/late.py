"""Late symbols: sizes that an op of the function finds in data, not in the inputs' shapes.

An op with the attribute ``binds``, a tuple of plain symbols, gives them their values when it runs.
Nothing before it may mention them; what reads them may stand anywhere after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cuvil.ir.attrs import attr_symbols
from cuvil.ir.core import Block, Function, Op
from cuvil.sym.constraint import Constraint

BINDS = "binds"


def bound_by(op: Op) -> list[str]:
    """The names of the symbols that the op gives values to, in order."""
    return [str(d) for d in op.attrs.get(BINDS, ())]


def binders(block: Block) -> dict[str, Op]:
    """The late symbols of a block by name, each with the op that binds it, in order."""
    return {name: op for op in block.ops if BINDS in op.attrs for name in bound_by(op)}


def late_symbols(function: Function) -> dict[str, Op]:
    """All late symbols, those that are bound in regions of control flow too: each run of a region
    gives them new values, and nothing outside may mention them."""
    return {name: op for op in function.walk() if BINDS in op.attrs for name in bound_by(op)}


def unread_symbols(function: Function) -> set[str]:
    """The late symbols that no op mentions: only a constraint keeps the ops that bind them."""
    used = set[str]().union(*(mentioned(op) for op in function.body.ops))
    return set(late_symbols(function)) - used


def call_symbols(function: Function) -> list[str]:
    """The symbols that have a value in a call, in the function's order: those of its inputs, and
    the late ones."""
    used: set[str] = set(late_symbols(function))
    for value in function.inputs:
        used |= value.type.symbols()
    return [name for name in function.symbols if name in used]


def checked(function: Function) -> list[Constraint]:
    """The constraints that a call checks: those whose symbols all have a value in it."""
    known = set(call_symbols(function))
    return [c for c in function.constraints if c.symbols() <= known]


def first_place(block: Block, names: Iterable[str]) -> Op:
    """The op before which something may stand that mentions these symbols: the block's first, or
    the one after the last that binds any of them."""
    wanted = set(names)
    found = block.first
    for op in block.ops:
        if wanted.intersection(bound_by(op)):
            found = op.next
    assert found is not None
    return found


def mentioned(op: Op) -> set[str]:
    """Names of the symbols in an op's attributes and its results' types, those of its regions'
    ops too; ``binds`` aside."""
    found: set[str] = set()
    for key, value in op.attrs.items():
        if key != BINDS:
            found |= attr_symbols(value)
    for result in op.results:
        if not result.type.is_static:
            found |= result.type.symbols()
    for region in op.regions:
        for inner in region.ops:
            found |= mentioned(inner)
    return found


def needed(op: Op, late: Mapping[str, Op]) -> Iterable[Op]:
    """The binders of the late symbols that an op mentions, each once."""
    found = {id(late[n]): late[n] for n in sorted(mentioned(op)) if n in late}
    return found.values()
