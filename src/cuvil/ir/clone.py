"""Copies of blocks, functions and modules, with symbols replaced if asked.

A copy shares weights (they never change) and nothing else with its source.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from cuvil.errors import ShapeConstraintError
from cuvil.ir.attrs import substitute_attrs
from cuvil.ir.core import Block, Function, Module, Op, Value
from cuvil.ir.types import TensorType
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, substitute

ValueMap = dict[Value, Value]
Substitution = Mapping[str, Dim]
SymbolRanges = Mapping[str, tuple[int, "int | None"]]


def clone_block(
    block: Block, values: ValueMap | None = None, substitution: Substitution | None = None
) -> Block:
    """A copy of the block and the regions inside. ``values`` maps what is used from outside to
    its replacement (itself by default) and is filled with every value copied."""
    values = values if values is not None else {}
    table = substitution or {}
    new = Block([_type(v.type, table) for v in block.args], [v.name for v in block.args])
    values.update(zip(block.args, new.args, strict=True))
    for op in block.ops:
        new._append(clone_op(op, values, table))
    return new


def clone_op(
    op: Op,
    values: ValueMap,
    substitution: Substitution | None = None,
    operands: Sequence[Value] | None = None,
) -> Op:
    """A copy that belongs to no block yet; its results are added to ``values``."""
    table = substitution or {}
    if operands is None:
        operands = [values.get(v, v) for v in op.operands]
    new = Op(
        op.name,
        operands,
        [_type(v.type, table) for v in op.results],
        substitute_attrs(op.attrs, table) if table else op.attrs,
        [clone_block(region, values, table) for region in op.regions],
        op.loc,
    )
    for old, result in zip(op.results, new.results, strict=True):
        result.name = old.name
        values[old] = result
    return new


def _type(type: TensorType, table: Substitution) -> TensorType:
    return type.substitute(table) if table and not type.is_static else type


def clone_function(
    function: Function,
    values: ValueMap | None = None,
    substitution: Substitution | None = None,
    new_symbols: SymbolRanges | None = None,
) -> Function:
    """A copy; with a substitution, its symbols and constraints are those that remain.

    ``new_symbols`` declares the symbols that the substitution brings in. Raises
    ShapeConstraintError where a replaced symbol's bounds or a constraint can't hold any more.
    """
    table = substitution or {}
    symbols = {k: v for k, v in function.symbols.items() if k not in table}
    symbols.update(new_symbols or {})
    constraints: list[Constraint] = []
    for constraint in [*_bounds(function, table), *function.constraints]:
        _keep(constraint, table, constraints)
    body = clone_block(function.body, values, table)
    return Function(
        function.name,
        body,
        list(function.input_names),
        list(function.output_names),
        symbols,
        constraints,
    )


def _bounds(function: Function, table: Substitution) -> list[Constraint]:
    """The bounds of the replaced symbols as constraints on what replaces them."""
    found = []
    for name, value in table.items():
        low, high = function.symbols.get(name, (0, None))
        found.append(Constraint(value, ">=", low, f"the bounds of {name}"))
        if high is not None:
            found.append(Constraint(value, "<=", high, f"the bounds of {name}"))
    return found


def _keep(constraint: Constraint, table: Substitution, kept: list[Constraint]) -> None:
    new = Constraint(
        substitute(constraint.left, table),
        constraint.relation,
        substitute(constraint.right, table),
        constraint.origin,
    )
    known = new.known()
    if known is False:
        values = ", ".join(f"{k} = {v}" for k, v in sorted(table.items()))
        raise ShapeConstraintError(
            f"the constraint {constraint} does not hold with {values}",
            where=constraint.origin,
            hint="choose sizes that satisfy it",
        )
    if known is None and new not in kept:
        kept.append(new)


def clone_module(
    module: Module,
    values: ValueMap | None = None,
    substitution: Substitution | None = None,
    new_symbols: SymbolRanges | None = None,
) -> Module:
    """A copy of the module; see :func:`clone_function`."""
    return Module(
        clone_function(module.main, values, substitution, new_symbols),
        module.name,
        module.stage,
        copy.deepcopy(module.call),
        copy.deepcopy(module.source),
    )
