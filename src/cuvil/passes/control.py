"""Control flow that is simpler than it looks: known branches and trips, what nobody reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cuvil.ir.control import FOR, IF, WHILE, Loop, captures_of, lead_of
from cuvil.ir.core import Block, Op, Value, Weight, walk
from cuvil.ir.late import BINDS
from cuvil.ir.regions import is_source
from cuvil.passes.matching import constant_of
from cuvil.rewrite.rewriter import Rewriter, needed_ops
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule

# A loop is written out when all its trips come to at most so many ops.
UNROLLED_OPS = 64


@rule("prune-branch", "if")
def prune_branch(op: Op, context: Context) -> Outcome:
    """if(c, a, b) -> a, when c is true; b, when it is false"""
    known = constant_of(op.operands[0])
    if known is None:
        return Refusal("the condition is no constant")
    taken = op.regions[0 if bool(known) else 1]
    return lambda rw: rw.inline(taken, op.operands[1:])


@rule("unroll-loop", "for")
def unroll_loop(op: Op, context: Context) -> Outcome:
    """for(n) {f} -> f(f(...)), when n is a small number"""
    loop = Loop(op)
    trips = loop.trips
    if not isinstance(trips, int):
        return Refusal("the number of trips is symbolic")
    size = sum(1 for _ in walk(loop.body))
    if trips > 1 and any(BINDS in inner.attrs for inner in walk(loop.body)):
        return Refusal("each trip finds sizes of its own")
    if trips > 1 and trips * size > UNROLLED_OPS:
        return Refusal(f"{trips} trips of {size} ops are too many")

    def action(rw: Rewriter) -> list[Value]:
        carried, rows = loop.inits, []
        for step in range(trips):
            at = rw.value("constant", value=Weight(np.asarray(step, np.int64)))
            found = rw.inline(loop.body, [at, *carried, *loop.captures])
            carried = found[: loop.carried]
            rows.append(found[loop.carried :])
        stacks = [_stack(rw, [row[i] for row in rows], s) for i, s in enumerate(loop.stacks)]
        return [*carried, *stacks]

    return action


def _stack(rw: Rewriter, rows: Sequence[Value], result: Value) -> Value:
    if not rows:
        zero = rw.value("constant", value=Weight(np.zeros((), result.type.dtype.numpy)))
        return rw.value("broadcast", [zero], shape=result.type.shape)
    parts = [rw.value("reshape", [v], shape=(1, *v.type.shape)) for v in rows]
    return parts[0] if len(parts) == 1 else rw.value("concat", parts, axis=0)


@rule("settle-while", "while")
def settle_while(op: Op, context: Context) -> Outcome:
    """while(limit, true) {true, f} -> for(limit) {f}; while(limit, false) -> its initial values"""
    loop = Loop(op)
    limit, start = constant_of(op.operands[0]), constant_of(op.operands[1])
    if (start is not None and not start) or (limit is not None and int(limit) <= 0):
        return lambda rw: loop.inits
    if limit is None or start is None:
        return Refusal("its limit or first condition is no constant")
    assert loop.going is not None
    going = constant_of(loop.going)
    if going is None or not going:
        return Refusal("data decides when it ends")

    def action(rw: Rewriter) -> list[Value]:
        body = rw.region(loop.body, [[v] for v in loop.body.args], range(1, 1 + loop.carried))
        attrs = {"carried": loop.carried, "trips": int(limit)}
        types = [v.type for v in op.results]
        return rw.op(FOR, op.operands[2:], attrs, regions=[body], result_types=types).results

    return action


@dataclass
class _Plan:
    """A smaller form of an op: what is kept of it.

    ``captured`` pairs each outer value with the arguments of every region that stand for it.
    """

    captured: list[tuple[Value, list[int]]] = field(default_factory=list)
    sources: dict[int, Value] = field(default_factory=dict)
    carried: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    replaced: dict[int, Value] = field(default_factory=dict)


@rule("slim-control", "if", "for", "while")
def slim_control(op: Op, context: Context) -> Outcome:
    """if or loop -> the same without unused results and captures, and with its own constants"""
    plan = _Plan()
    first = 1 if op.name != IF else 0
    if op.name == IF:
        plan.kept = [i for i, v in enumerate(op.results) if v.uses]
    else:
        _plan_loop(Loop(op), plan)
    invariant = {first + i: v for i, v in plan.replaced.items()}
    start = len(op.regions[0].args) - len(captures_of(op))
    outer = {**invariant, **{start + i: v for i, v in enumerate(captures_of(op))}}
    _plan_captures(op, outer, plan)
    unchanged = (
        len(plan.kept) == len(op.results)
        and len(plan.captured) == len(captures_of(op))
        and not plan.replaced
    )
    if unchanged:
        return Refusal("every result and capture is used")
    return lambda rw: _slimmed(rw, op, plan)


def _plan_captures(op: Op, outer: dict[int, Value], plan: _Plan) -> None:
    """Each outer value once, where a region reads it; those of constants are made inside."""
    places: dict[int, tuple[Value, list[int]]] = {}
    for at, value in outer.items():
        if not any(region.args[at].uses for region in op.regions):
            continue
        if is_source(value):
            plan.sources[at] = value
        else:
            places.setdefault(id(value), (value, []))[1].append(at)
    plan.captured = list(places.values())


def _plan_loop(loop: Loop, plan: _Plan) -> None:
    """Which carried values are needed: those somebody reads, directly or in a later trip."""
    op, nexts, args = loop.op, loop.next, loop.carried_args
    for i, (value, arg) in enumerate(zip(nexts, args, strict=True)):
        if value is arg:
            plan.replaced[i] = loop.inits[i]
    needed = {i for i, v in enumerate(op.results) if v.uses and i not in plan.replaced}
    first = int(loop.conditional)
    yields = loop.body.terminator.operands
    while True:
        roots = [yields[first + i] for i in needed]
        if loop.going is not None:
            roots.append(loop.going)
        read = arguments_read(loop.body, roots)
        more = {i for i, arg in enumerate(args) if id(arg) in read and i not in plan.replaced}
        if more <= needed:
            break
        needed |= more
    plan.kept = sorted(needed)
    plan.carried = [i for i in plan.kept if i < loop.carried]


def arguments_read(block: Block, results: Sequence[Value]) -> set[int]:
    """Identities of the block's arguments that these results depend on."""
    read = [*results, *(v for op in needed_ops(block, results).values() for v in op.operands)]
    return {id(v) for v in read if v.op is None}


def _slimmed(rw: Rewriter, op: Op, plan: _Plan) -> list[Value]:
    if not plan.kept:
        return [plan.replaced.get(i, v) for i, v in enumerate(op.results)]
    lead = op.operands[: lead_of(op)]
    first = int(op.name != IF)
    conditional = op.name == WHILE
    yields = [i + int(conditional) for i in plan.kept]
    regions = []
    for block in op.regions:
        args = block.args
        kept = [[args[0]]] if first else []
        kept += [[args[1 + i]] for i in plan.carried]
        kept += [[args[i] for i in places] for _, places in plan.captured]
        sources = {args[i]: value for i, value in plan.sources.items()}
        regions.append(rw.region(block, kept, [0, *yields] if conditional else yields, sources))
    inits = [Loop(op).inits[i] for i in plan.carried] if op.name != IF else []
    attrs = {**op.attrs, "carried": len(plan.carried)} if op.name != IF else op.attrs
    made = rw.op(
        op.name,
        [*lead, *inits, *(v for v, _ in plan.captured)],
        attrs,
        regions=regions,
        result_types=[op.results[i].type for i in plan.kept],
    )
    found = {**dict(zip(plan.kept, made.results, strict=True)), **plan.replaced}
    return [found.get(i, v) for i, v in enumerate(op.results)]


RULES: list[Rule] = [prune_branch, unroll_loop, settle_while, slim_control]
