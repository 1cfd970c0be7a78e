"""The memory plan: which intermediate lives where in the arena.

Kernels run one after another, so lifetimes are intervals of positions. A value takes the free slot
whose size fits best, or a new one; a slot is as large as its largest tenant. Sizes are expressions
over the symbols; to choose between slots they are compared at hint values, which affects how much
is reused and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuvil.ir.core import Function, Op, Value
from cuvil.sym.expr import Dim, evaluate, maximum, mul
from cuvil.sym.facts import Facts


@dataclass
class Plan:
    """``slots`` are sizes in bytes; ``of`` maps id(value) to its slot, ``outputs`` id(value) to
    the function output it is written to directly."""

    slots: list[Dim] = field(default_factory=list)
    of: dict[int, int] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)


def alias_root(value: Value) -> Value:
    """The value whose memory ``value`` is: reshapes of what lies in memory are free."""
    while value.op is not None and value.op.short == "reshape":
        value = value.op.operands[0]
    return value


def plan_memory(function: Function) -> Plan:
    """Assign slots to every intermediate of a fused function."""
    plan = Plan()
    facts = Facts(function.symbols)
    hints = _hints(function.symbols)
    ops = [op for op in function.body.ops if op.short not in ("constant", "reshape")]
    for index, value in enumerate(function.outputs):
        root = alias_root(value)
        if root.op is not None and root.op.short != "constant":
            plan.outputs.setdefault(id(root), index)
    last = _last_uses(ops)
    free: list[int] = []
    for position, op in enumerate(ops):
        for result in op.results:
            if id(result) in plan.outputs:
                continue
            slot = _choose(plan, free, _bytes(result), hints, facts)
            plan.of[id(result)] = slot
        for value in {id(v): v for v in _roots(op)}.values():
            slot_of = plan.of.get(id(value))
            if slot_of is not None and last[id(value)] == position:
                free.append(slot_of)
        free += [
            plan.of[id(r)] for r in op.results if id(r) in plan.of and last.get(id(r), -1) < 0
        ]
    return plan


def _bytes(value: Value) -> Dim:
    return mul(value.type.elements, value.type.dtype.size)


def _roots(op: Op) -> list[Value]:
    return [alias_root(v) for v in op.operands]


def _last_uses(ops: list[Op]) -> dict[int, int]:
    last: dict[int, int] = {}
    for position, op in enumerate(ops):
        for value in _roots(op):
            last[id(value)] = position
    return last


def _hints(symbols: Mapping[str, tuple[int, int | None]]) -> dict[str, int]:
    """A plausible size for each symbol, different from its neighbours'."""
    hints = {}
    for number, (name, (low, high)) in enumerate(symbols.items()):
        wanted = 64 + 5 * number
        hints[name] = max(low, min(wanted, high if high is not None else wanted))
    return hints


def _choose(
    plan: Plan, free: list[int], size: Dim, hints: Mapping[str, int], facts: Facts
) -> int:
    wanted = evaluate(size, hints)
    best: tuple[tuple[int, int], int] | None = None
    for slot in free:
        have = evaluate(plan.slots[slot], hints)
        grows = max(0, wanted - have)
        score = (0 if plan.slots[slot] == size else 1, grows * 4 + max(0, have - wanted))
        if best is None or score < best[0]:
            best = (score, slot)
    if best is None:
        plan.slots.append(size)
        return len(plan.slots) - 1
    slot = best[1]
    free.remove(slot)
    plan.slots[slot] = facts.simplify(maximum(plan.slots[slot], size))
    return slot


def plan_text(function: Function) -> str:
    """The plan as comment lines: slots with their sizes, and who lives where."""
    plan = plan_memory(function)
    lines = [f"// slot {i}: {size} bytes" for i, size in enumerate(plan.slots)]
    for op in function.body.ops:
        for result in op.results:
            if id(result) in plan.outputs:
                place = f"output {plan.outputs[id(result)]}"
            elif id(result) in plan.of:
                place = f"slot {plan.of[id(result)]}"
            else:
                continue
            lines.append(f"// {op.attrs.get('name', op.short)} {result.type}: {place}")
    return "\n".join(lines) + "\n"
