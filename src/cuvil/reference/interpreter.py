"""Runs a module op by op through the operators' references: the definition of what it computes.

Works at every level: ops with a region whose block arguments are its operands, such as
``cuvil.fused``, run that region; control flow runs its regions as it says. Values are dropped
after their last use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.errors import CuvilError, InputError, InvalidModelError, VerificationError
from cuvil.ir.attrs import substitute_attrs
from cuvil.ir.control import FOR, IF, REQUIRE, Loop, constraint_of, is_control
from cuvil.ir.core import Block, Function, Module, Op, Value
from cuvil.ir.keeping import KEEP, PLACE, is_keeping
from cuvil.ir.late import BINDS, bound_by
from cuvil.ir.types import TensorType
from cuvil.ops.registry import registry
from cuvil.reference.binding import Seen, bind_symbols, check_bounds, check_constraints
from cuvil.sym.expr import evaluate

Array = np.ndarray[Any, Any]
Watch = Callable[[Value, Array], None]
Kept = dict[tuple[int, int], Array]  # by place and side (ir/keeping.py)
TERMINATORS = ("cuvil.yield", "func.return")


def run_module(
    module: Module,
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int] | None = None,
    *,
    watch: Watch | None = None,
) -> list[Array]:
    """The outputs of the entry function, in order. See :func:`run_function`."""
    return run_function(module.main, inputs, symbols, watch=watch)


def run_function(
    function: Function,
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int] | None = None,
    *,
    watch: Watch | None = None,
) -> list[Array]:
    """The outputs for these inputs by name. Symbols are bound from the shapes of the inputs;
    ``symbols`` gives those that no shape decides. ``watch(value, array)`` sees every value as it
    is made, the inputs first.

    Raises InputError for a missing, extra or mistyped input, ShapeConstraintError for a shape
    outside the function's constraints, VerificationError where an op's reference disagrees with
    its type rule.
    """
    arrays = _arguments(function, inputs)
    table = _bind(function, arrays, symbols)
    outputs = _Run(table, watch, function).block(function.body, arrays)
    check_bounds(table, function.symbols)
    check_constraints(function.constraints, table)
    return outputs


def run_op(
    op: Op,
    arrays: Sequence[Array],
    symbols: Mapping[str, int] | None = None,
    kept: Kept | None = None,
) -> list[Array]:
    """The results of one op for these operands; ``symbols`` gives the values of its symbols,
    ``kept`` holds what ops that ran before have put aside."""
    return _Run(dict(symbols or {}), None, kept=kept).op(op, list(arrays))


def sizes_of(op: Op, arrays: Sequence[Array]) -> dict[str, int]:
    """The values of the symbols that an op on these operands binds; none for most."""
    if BINDS not in op.attrs:
        return {}
    return dict(zip(bound_by(op), map(int, np.asarray(arrays[0]).reshape(-1)), strict=True))


def _arguments(function: Function, inputs: Mapping[str, Array]) -> list[Array]:
    names = function.input_names
    extra = sorted(set(inputs) - set(names))
    missing = [n for n in names if n not in inputs]
    if extra or missing:
        problem = f"missing input {missing[0]!r}" if missing else f"unknown input {extra[0]!r}"
        raise InputError(problem, hint=f"the inputs are {', '.join(map(repr, names))}")
    arrays = []
    for name, value in zip(names, function.inputs, strict=True):
        array = np.asarray(inputs[name])
        if array.dtype != value.type.dtype.numpy:
            raise InputError(
                f"input {name!r} has dtype {array.dtype}, but needs {value.type.dtype}",
                hint="convert it before the call",
            )
        if array.ndim != value.type.rank:
            raise InputError(
                f"input {name!r} has rank {array.ndim}, but needs rank {value.type.rank}: "
                f"{value.type}"
            )
        arrays.append(array)
    return arrays


def _bind(
    function: Function, arrays: Sequence[Array], symbols: Mapping[str, int] | None
) -> dict[str, int]:
    seen = [
        Seen(f"dimension {axis} of input {name!r}", dim, array.shape[axis])
        for name, value, array in zip(
            function.input_names, function.inputs, arrays, strict=True
        )
        for axis, dim in enumerate(value.type.shape)
    ]
    return bind_symbols(seen, function.symbols, function.constraints, symbols)


class _Run:
    """One execution: the values of symbols (which data-dependent ops add to) and the observer."""

    def __init__(
        self,
        table: dict[str, int],
        watch: Watch | None,
        function: Function | None = None,
        kept: Kept | None = None,
    ) -> None:
        self.table = table
        self.kept = {} if kept is None else kept
        self.watch = watch
        self.function = function

    def block(self, block: Block, arrays: Sequence[Array]) -> list[Array]:
        """The terminator's operands."""
        environment: dict[int, Array] = {}
        for value, array in zip(block.args, arrays, strict=True):
            self._see(environment, value, array)
        dying = _last_uses(block)
        for op in block.ops:
            operands = [environment[id(v)] for v in op.operands]
            if op.name in TERMINATORS:
                return operands
            results = self.op(op, operands)
            for value, array in zip(op.results, results, strict=True):
                self._see(environment, value, array)
            for value in (*op.operands, *op.results):
                if dying[id(value)] is op:
                    environment.pop(id(value), None)
        raise InvalidModelError("a block ends without cuvil.yield or func.return")

    def _see(self, environment: dict[int, Array], value: Value, array: Array) -> None:
        environment[id(value)] = array
        if self.watch is not None:
            self.watch(value, array)

    def op(self, op: Op, operands: list[Array]) -> list[Array]:
        """The results, checked against the op's result types."""
        types = [v.type.substitute(self.table) for v in op.results]
        if BINDS in op.attrs:
            self._bind(sizes_of(op, operands))
        if op.name == REQUIRE:
            check_constraints([constraint_of(op)], self.table)
            return []
        if is_control(op):
            results = self._control(op, operands, types)
        elif op.regions:
            results = self._region(op, operands)
        elif is_keeping(op):
            results = [self._keep(op, operands)]
        else:
            definition = registry().get(op.name)
            if definition is None:
                raise InvalidModelError(f"there is no operator {op.name}", where=str(op.loc))
            attrs = substitute_attrs(op.attrs, self.table)
            try:
                results = definition.reference(operands, attrs, types)
            except CuvilError as error:
                error.where = error.where or f"{op.name} at {op.loc}"
                raise
            except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
                raise InvalidModelError(
                    f"the reference of {op.name} failed: {type(error).__name__}: {error}",
                    where=str(op.loc),
                    stage="reference",
                ) from error
        if len(results) != len(types):
            raise VerificationError(
                f"the reference of {op.name} gives {len(results)} results, not {len(types)}"
            )
        return [
            self._checked(op, i, np.asarray(array), type)
            for i, (array, type) in enumerate(zip(results, types, strict=True))
        ]

    def _bind(self, found: dict[str, int]) -> None:
        """Late sizes are checked before anything is computed with them."""
        self.table.update(found)
        if self.function is not None:
            check_bounds(found, self.function.symbols)
            check_constraints(self.function.constraints, self.table)

    def _keep(self, op: Op, operands: list[Array]) -> Array:
        side = operands[-1]
        key = (op.attrs[PLACE], int(side))
        if op.name == KEEP:
            self.kept[key] = operands[0]
            return side
        if key not in self.kept:
            raise InvalidModelError(f"{op.name}: nothing was kept there", where=str(op.loc))
        return self.kept[key]

    def _region(self, op: Op, operands: list[Array]) -> list[Array]:
        if len(op.regions) != 1 or len(op.regions[0].args) != len(operands):
            raise InvalidModelError(
                f"{op.name} needs one region whose arguments are its operands", where=str(op.loc)
            )
        return self.block(op.regions[0], operands)

    def _control(self, op: Op, operands: list[Array], types: list[TensorType]) -> list[Array]:
        if op.name == IF:
            return self._scoped(op.regions[0 if operands[0] else 1], operands[1:])
        loop = Loop(op)
        limit = evaluate(loop.trips, self.table) if op.name == FOR else int(operands[0])
        going = op.name == FOR or bool(operands[1])
        first = 0 if op.name == FOR else 2
        carried = operands[first : first + loop.carried]
        captured = operands[first + loop.carried :]
        rows: list[list[Array]] = [[] for _ in loop.stacks]
        step = 0
        while going and step < limit:
            arguments = [np.asarray(step, np.int64), *carried, *captured]
            yielded = self._scoped(loop.body, arguments)
            if loop.conditional:
                going = bool(yielded.pop(0))
            carried = yielded[: loop.carried]
            for kept, row in zip(rows, yielded[loop.carried :], strict=True):
                kept.append(row)
            step += 1
        return [*carried, *map(_stacked, rows, types[loop.carried :])]

    def _scoped(self, block: Block, operands: Sequence[Array]) -> list[Array]:
        """One run of a region; symbols that it binds are forgotten at its end."""
        before = set(self.table)
        results = self.block(block, operands)
        for name in self.table.keys() - before:
            del self.table[name]
        return results

    def _checked(self, op: Op, index: int, array: Array, type: TensorType) -> Array:
        """The array, after its shape has bound the symbols that only the data decides."""
        if array.ndim == type.rank and not type.is_static:
            seen = [
                Seen(f"dimension {axis} of result {index} of {op.name}", dim, array.shape[axis])
                for axis, dim in enumerate(type.shape)
            ]
            self.table.update(bind_symbols(seen, {}, known=self.table))
            type = type.substitute(self.table)
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            raise VerificationError(
                f"result {index} of {op.name} is {list(array.shape)} x {array.dtype}, "
                f"but its type says {type}",
                where=str(op.loc),
                stage="reference",
            )
        return array


def _stacked(rows: list[Array], type: TensorType) -> Array:
    """Rows along a new first dimension; without any, the sizes of ``type`` say what is empty."""
    if rows:
        return np.stack(rows)
    shape = [d if isinstance(d, int) else 0 for d in type.shape]
    return np.zeros([0, *shape[1:]], type.dtype.numpy)


def _last_uses(block: Block) -> dict[int, Op]:
    """By the identity of each value, the op of this block after which it is dead."""
    last: dict[int, Op] = {}
    for op in block.ops:
        for value in op.operands:
            last[id(value)] = op
        for value in op.results:
            last[id(value)] = op
    return last
