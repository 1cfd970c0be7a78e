"""Maps are computed where they are read, with the reader's sizes, which are equal by a constraint.

Kernels loop over sizes that are written alike. A broadcast that repeats nothing says that sizes
which are written differently are the same; what is before it would be a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from cuvil.ir.core import Op, Value
from cuvil.ir.types import Shape
from cuvil.ops.registry import registry
from cuvil.passes.matching import repeats_nothing
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule

_MADE = ("map", "reduce", "contraction")


def _fusion(op: Op | None) -> str:
    definition = None if op is None else registry().get(op.name)
    return "" if definition is None else definition.fusion


@rule("lift-equal-sizes", "broadcast")
def lift_equal_sizes(op: Op, context: Context) -> Outcome:
    """broadcast(map(a, b)) -> map(broadcast(a), broadcast(b)), where it repeats nothing and no
    kernel before it would compute the maps in place"""
    if not repeats_nothing(op) or op.operands[0].type.shape == op.type.shape:
        return Refusal("it repeats elements, or none of its sizes is written differently")
    if not all(_fusion(user) in ("map", "reduce") for user in op.result.users):
        return Refusal("what reads it reads from memory")
    maps = _maps_before(op)
    if not maps:
        return Refusal("what it reads is made by no map, or read elsewhere too")
    if any(not _stands(v, maps) for one in maps.values() for v in one.operands):
        return Refusal("the kernel that makes what the map reads computes the map in place")

    def action(rw: Rewriter) -> list[Value]:
        return [_lifted(op.operands[0], maps, op.type.shape, rw, {})]

    return action


def _maps_before(op: Op) -> dict[int, Op]:
    """By id, the maps of one size that nothing but ``op`` and each other read."""
    found: dict[int, Op] = {}
    shape, waiting = op.operands[0].type.shape, [op.operands[0]]
    while waiting:
        value = waiting.pop()
        one = value.op
        if one is None or id(one) in found or _fusion(one) != "map" or value.type.shape != shape:
            continue
        if one.short != "materialize" and _all_in(one.result.users, found, op):
            found[id(one)] = one
            waiting += [v for x in found.values() for v in x.operands]
    return found


def _all_in(users: Iterable[Op], found: dict[int, Op], op: Op) -> bool:
    return all(user is op or id(user) in found for user in users)


def _stands(value: Value, maps: dict[int, Op]) -> bool:
    """Whether ``value`` is one of the maps', or lies in memory with or without them."""
    one = value.op
    if one is None or id(one) in maps or _fusion(one) not in _MADE:
        return True
    return any(id(user) not in maps and _fusion(user) != "map" for user in value.users)


def _lifted(
    value: Value, maps: dict[int, Op], shape: Shape, rw: Rewriter, made: dict[int, Value]
) -> Value:
    """``value`` with the sizes of ``shape``; the maps are made again for them."""
    known = made.get(id(value))
    if known is not None:
        return known
    one = value.op
    if one is not None and id(one) in maps:
        operands = [_lifted(v, maps, shape, rw, made) for v in one.operands]
        known = rw.op(one.name, operands, one.attrs, loc=one.loc).result
    else:
        spread = one is not None and one.short == "broadcast"
        known = rw.value("broadcast", one.operands if one and spread else [value], shape=shape)
    made[id(value)] = known
    return known


RULES: list[Rule] = [lift_equal_sizes]
