"""Branches and loops: If and Loop, whose bodies see what stands around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx import GraphProto

from cuvil.frontends.onnx_export.order import graph_of
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.ir.control import CONDITION, FOR, IF, STEP, WHILE, Loop
from cuvil.ir.core import Block, Op
from cuvil.ir.late import bound_by
from cuvil.ir.types import BOOL, Shape
from cuvil.sym.expr import symbols_of

# Writes the ops of a block.
WriteBlock = Callable[[Scope, Block], None]
ControlWriter = Callable[[Scope, Op, WriteBlock], list[str]]


def _branch(scope: Scope, op: Op, block: Block, write: WriteBlock, name: str) -> GraphProto:
    inner = scope.inner()
    for argument, value in zip(block.args, op.operands[1:], strict=True):
        inner.define(argument, scope.name(value))
    write(inner, block)
    results = [(inner.name(v), v.type) for v in block.terminator.operands]
    return graph_of(inner, name, [], results)


def _if(scope: Scope, op: Op, write: WriteBlock) -> list[str]:
    condition = scope.name(op.operands[0])
    branches = {
        name: _branch(scope, op, block, write, name)
        for name, block in zip(("then_branch", "else_branch"), op.regions, strict=True)
    }
    return scope.many("If", [condition], len(op.results), **branches)


def _loop(scope: Scope, op: Op, write: WriteBlock) -> list[str]:
    loop = Loop(op)
    if op.name == FOR:
        limit, going = scope.dim(loop.trips), scope.number(True, BOOL)
    else:
        limit, going = scope.name(op.operands[0]), scope.name(op.operands[1])
    inner = scope.inner()
    step, goes = scope.names.fresh("step"), scope.names.fresh("goes")
    inner.define(loop.body.args[0], step)
    carried = []
    for argument in loop.carried_args:
        carried.append((scope.names.fresh("carried"), argument.type))
        inner.define(argument, carried[-1][0])
    for argument, value in zip(loop.captured_args, loop.captures, strict=True):
        inner.define(argument, scope.name(value))
    write(inner, loop.body)
    again = inner.name(loop.going) if loop.going is not None else goes
    results = [(again, CONDITION)]
    results += [(inner.name(v), v.type) for v in (*loop.next, *loop.rows)]
    given = [(step, STEP), (goes, CONDITION), *carried]
    body = graph_of(inner, "body", given, results)
    inits = [scope.name(v) for v in loop.inits]
    made = scope.many("Loop", [limit, going, *inits], len(op.results), body=body)
    if op.name == FOR and scope.facts.positive(loop.trips):
        return made
    kept = len(op.results) - len(loop.rows)
    rows = zip(made[kept:], op.results[kept:], strict=True)
    return [*made[:kept], *(_shaped(scope, name, value.type.shape) for name, value in rows)]


def _shaped(scope: Scope, name: str, shape: Shape) -> str:
    """Rows of the sizes that their type has: where there are none, ONNX Runtime takes sizes that
    the body does not declare as numbers for 0."""
    own = shape[1:]
    symbols = {s for dim in own for s in symbols_of(dim)}
    if not symbols or not all(map(scope.knows, symbols)):
        return name
    count = scope.node("Shape", name, start=0, end=1)
    sizes = scope.node("Concat", count, scope.shape(own), axis=0)
    return scope.node("Reshape", name, sizes, allowzero=1)


def bind_sizes(scope: Scope, op: Op) -> None:
    """Late symbols: elements of a tensor that is there by now."""
    names = bound_by(op)
    line = scope.node("Reshape", scope.name(op.operands[0]), scope.ints([-1]))
    for place, name in enumerate(names):
        ends = scope.ints([place]), scope.ints([place + 1])
        scope.symbols[name] = scope.node("Slice", line, *ends) if len(names) > 1 else line


WRITERS: Mapping[str, ControlWriter] = {IF: _if, FOR: _loop, WHILE: _loop}
