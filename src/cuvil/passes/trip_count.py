"""Loops that data does not end: the number of their trips is found by running what decides it."""

from __future__ import annotations

import numpy as np

from cuvil.errors import CuvilError
from cuvil.ir.control import FOR, Loop
from cuvil.ir.core import Op, Value
from cuvil.passes.control import arguments_read
from cuvil.passes.matching import Array, constant_of
from cuvil.reference.interpreter import run_op
from cuvil.rewrite.rewriter import Rewriter, needed_ops
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule
from cuvil.sym.expr import evaluate

MOST_TRIPS = 1024
_MOST_OPS = 32
_MOST_ELEMENTS = 64


@rule("count-trips", "while")
def count_trips(op: Op, context: Context) -> Outcome:
    """while(limit, true) {f} -> for(n) {f}, when constants alone decide that there are n trips"""
    loop = Loop(op)
    limit, start = constant_of(op.operands[0]), constant_of(op.operands[1])
    if limit is None or int(limit) <= 0 or start is None or not start:
        return Refusal("its limit or first condition is no constant, or it never begins")
    assert loop.going is not None
    table = _constants(loop)
    if table is None:
        return Refusal("data decides when it ends")
    trips = _trips(loop, table, int(limit))
    if trips is None:
        return Refusal(f"what decides when it ends is large, or takes over {MOST_TRIPS} trips")

    def action(rw: Rewriter) -> list[Value]:
        body = rw.region(loop.body, [[v] for v in loop.body.args], range(1, 1 + loop.carried))
        attrs = {"carried": loop.carried, "trips": trips}
        types = [v.type for v in op.results]
        return rw.op(FOR, op.operands[2:], attrs, regions=[body], result_types=types).results

    return action


def _decisive(loop: Loop) -> tuple[list[int], set[int]]:
    """The carried values that the condition depends on, in this trip or a later one, and the
    identities of the arguments that are read for them."""
    args, found = loop.carried_args, set[int]()
    while True:
        roots = [loop.going, *(loop.next[i] for i in sorted(found))]
        read = arguments_read(loop.body, [v for v in roots if v is not None])
        read |= {id(v) for v in roots if v is not None and v.op is None}
        more = {i for i, arg in enumerate(args) if id(arg) in read}
        if more <= found:
            return sorted(found), read
        found |= more


def _constants(loop: Loop) -> dict[Value, Array] | None:
    """The arguments that decide with their first values, if all of these are constants."""
    carried, read = _decisive(loop)
    pairs = [(loop.carried_args[i], loop.inits[i]) for i in carried]
    pairs += [
        (arg, outer)
        for arg, outer in zip(loop.captured_args, loop.captures, strict=True)
        if id(arg) in read
    ]
    table = {}
    for argument, outer in pairs:
        array = constant_of(outer)
        if array is None:
            return None
        table[argument] = array
    return table


def _trips(loop: Loop, table: dict[Value, Array], limit: int) -> int | None:
    """How often the body runs; None if that takes too much to find out."""
    carried, _ = _decisive(loop)
    assert loop.going is not None
    needed = needed_ops(loop.body, [loop.going, *(loop.next[i] for i in carried)])
    ops = [op for op in loop.body.ops if id(op) in needed]
    small = all(
        r.type.is_static and evaluate(r.type.elements, {}) <= _MOST_ELEMENTS
        for op in ops for r in op.results
    )  # fmt: skip
    if not small or len(ops) > _MOST_OPS or any(op.regions or not op.results for op in ops):
        return None
    for step in range(min(limit, MOST_TRIPS)):
        values = {**table, loop.body.args[0]: np.asarray(step, np.int64)}
        try:
            for op in ops:
                results = run_op(op, [values[v] for v in op.operands])
                values.update(zip(op.results, results, strict=True))
        except CuvilError:  # as it will be at run time
            return None
        if not values[loop.going]:
            return step + 1
        table = {**table, **{loop.carried_args[i]: values[loop.next[i]] for i in carried}}
    return limit if limit <= MOST_TRIPS else None


RULES: list[Rule] = [count_trips]
