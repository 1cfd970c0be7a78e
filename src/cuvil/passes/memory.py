"""The memory plan: which intermediate lives where in the arena.

Kernels run one after another, so lifetimes are intervals of positions. A value takes the free slot
whose size fits best, or a new one; a slot is as large as its largest tenant. Sizes are expressions
over the symbols; to choose between slots they are compared at hint values, which affects how much
is reused and nothing else.

A slot whose size needs late symbols that its own block binds lies outside the arena: it is taken
before the op that first writes to it, when they are known, and given back after the last that
reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuvil.ir.control import IF, Loop, is_control
from cuvil.ir.core import Block, Function, Op, Value
from cuvil.ir.keeping import KEPT
from cuvil.ir.late import binders, bound_by
from cuvil.sym.expr import Dim, add, floordiv, maximum, mul, symbols_of
from cuvil.sym.facts import Facts
from cuvil.sym.largest import Largest
from cuvil.sym.points import Point

ALIGNMENT = 64


@dataclass
class Plan:
    """``slots`` are sizes in bytes; ``of`` maps id(value) to its slot, ``outputs`` id(value) to
    the output of the block it is written to directly. An op of control flow has a slot for all
    that its regions hold, ``inner`` by id(op); ``blocks`` has their own plans by id(block).

    ``late`` holds the slots outside the arena with the late symbols known when each is taken;
    ``taken`` and ``given`` are the late slots by the id of the op before, or after, which that is.
    """

    slots: list[Dim] = field(default_factory=list)
    of: dict[int, int] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)
    inner: dict[int, int] = field(default_factory=dict)
    blocks: dict[int, Plan] = field(default_factory=dict)
    late: dict[int, frozenset[str]] = field(default_factory=dict)
    taken: dict[int, list[int]] = field(default_factory=dict)
    given: dict[int, list[int]] = field(default_factory=dict)

    @property
    def total(self) -> Dim:
        """The bytes of all slots but the late ones."""
        size: Dim = 0
        for number, slot in enumerate(self.slots):
            if number not in self.late:
                size = add(size, aligned(slot))
        return size


def intermediate_bytes(plan: Plan, function: Function) -> Dim:
    """The bytes of all intermediates, each in memory of its own, those of regions once; what lies
    outside the arena is left out."""
    return _intermediates(plan, function.body)


def _intermediates(plan: Plan, block: Block) -> Dim:
    total: Dim = 0
    for op in block.ops:
        for result in op.results:
            if plan.of.get(id(result), -1) >= 0 and plan.of[id(result)] not in plan.late:
                total = add(total, _bytes(result))
        if is_control(op) and plan.inner[id(op)] not in plan.late:
            for region in op.regions:
                total = add(total, _intermediates(plan.blocks[id(region)], region))
    return total


def aligned(size: Dim) -> Dim:
    """The next multiple of the alignment."""
    return mul(floordiv(add(size, ALIGNMENT - 1), ALIGNMENT), ALIGNMENT)


def alias_root(value: Value) -> Value:
    """The value whose memory ``value`` is: reshapes of what lies in memory are free."""
    while value.op is not None and value.op.short == "reshape":
        value = value.op.operands[0]
    return value


def plan_memory(function: Function, facts: Facts | None = None) -> Plan:
    """Assign slots to every intermediate of a fused function; ``facts`` of its symbols, if there
    are any yet."""
    known = facts or Facts(function.symbols)
    return _Planner(known, _hints(function.symbols)).plan(function.body)


class _Planner:
    """Plans blocks, those of regions before the block around them."""

    def __init__(self, facts: Facts, hints: Mapping[str, int]) -> None:
        self.facts = facts
        self.hints = hints

    def plan(self, block: Block) -> Plan:
        plan = Plan()
        ops = [op for op in block.ops if op.short not in ("constant", "reshape")]
        for index, value in enumerate(block.terminator.operands):
            root = alias_root(value)
            if root.op is not None and root.op.short != "constant":
                plan.outputs.setdefault(id(root), index)
        last = _last_uses(ops)
        choice = _Choice(plan, block, self.facts, self.hints)
        free = choice.free
        for position, op in enumerate(ops):
            choice.known |= set(bound_by(op))
            self._place(plan, op, choice)
            for value in {id(v): v for v in _roots(op)}.values():
                slot_of = plan.of.get(id(value))
                if slot_of is not None and last[id(value)] == position:
                    free.append(slot_of)
            free += [
                plan.of[id(r)] for r in op.results if id(r) in plan.of and last.get(id(r), -1) < 0
            ]
        plan.slots = [tenants.value for tenants in choice.tenants]
        _give_back(plan, ops, last)
        return plan

    def _place(self, plan: Plan, op: Op, choice: _Choice) -> None:
        """Slots for the results of an op, and for what its regions hold while it runs."""
        for result in op.results:
            # What was put aside is read where it lies.
            if id(result) not in plan.outputs and op.name != KEPT:
                plan.of[id(result)] = choice.slot(_bytes(result), op)
        if not is_control(op):
            return
        size: Dim = 0
        for region in op.regions:
            inner = plan.blocks[id(region)] = self.plan(region)
            # Sizes in a region that does not run may come to anything.
            size = maximum(size, inner.total)
        if op.name != IF:
            size = maximum(0, add(size, spare_bytes(Loop(op))))
        slot = plan.inner[id(op)] = choice.slot(self.facts.simplify(size), op)
        choice.free.append(slot)


class _Choice:
    """Chooses slots of one block; ``free`` are those without a tenant, ``known`` the late symbols
    of the block that are bound."""

    def __init__(self, plan: Plan, block: Block, facts: Facts, hints: Mapping[str, int]) -> None:
        self.plan = plan
        self.late = set(binders(block))
        self.known: set[str] = set()
        self.free: list[int] = []
        self.facts = facts
        self.tenants: list[Largest] = []  # the sizes of those of each slot
        self.usual = Point(hints)
        self._sizes: list[int] = []  # of the slots, at the usual sizes of symbols

    def slot(self, size: Dim, op: Op) -> int:
        """The slot for ``size`` bytes that are needed when ``op`` runs."""
        plan, late = self.plan, symbols_of(size) & self.late
        wanted = self.usual.at(size) or 0
        best: tuple[tuple[int, int], int] | None = None
        for slot in self.free:
            if not self._may_hold(slot, late):
                continue
            have = self._sizes[slot]
            grows = max(0, wanted - have)
            same = self.tenants[slot].values.keys() == {size}
            score = (0 if same else 1, grows * 4 + max(0, have - wanted))
            if best is None or score < best[0]:
                best = (score, slot)
        if best is None:
            self.tenants.append(Largest(self.facts, size))
            self._sizes.append(wanted)
            number = len(self.tenants) - 1
            if late:
                plan.late[number] = frozenset(self.known)
                plan.taken.setdefault(id(op), []).append(number)
            return number
        slot = best[1]
        self.free.remove(slot)
        self.tenants[slot].add(size)
        self._sizes[slot] = max(self._sizes[slot], wanted)
        return slot

    def _may_hold(self, slot: int, late: frozenset[str]) -> bool:
        """A slot has its size before it is taken: no late symbol that is bound later is in it."""
        return bool(late) == (slot in self.plan.late) and late <= self.plan.late.get(slot, late)


def _give_back(plan: Plan, ops: list[Op], last: Mapping[int, int]) -> None:
    """After which op each late slot has its last reader."""
    ends: dict[int, int] = {}
    for position, op in enumerate(ops):
        for result in op.results:
            slot = plan.of.get(id(result), -1)
            if slot in plan.late:
                ends[slot] = max(position, last.get(id(result), -1), ends.get(slot, -1))
        inner = plan.inner.get(id(op), -1)
        if inner in plan.late:
            ends[inner] = max(position, ends.get(inner, -1))
    for slot, position in sorted(ends.items()):
        plan.given.setdefault(id(ops[position]), []).append(slot)


def spare_bytes(loop: Loop) -> Dim:
    """A second place for each carried value: a trip writes one while it reads the other."""
    size: Dim = 0
    for value in loop.results:
        size = add(size, aligned(_bytes(value)))
    return size


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


def plan_text(function: Function) -> str:
    """The plan as comment lines: slots with their sizes, and who lives where."""
    return "\n".join(_plan_lines(plan_memory(function), function.body, "")) + "\n"


def _plan_lines(plan: Plan, block: Block, indent: str) -> list[str]:
    lines = [
        f"// {indent}slot {i}: {size} bytes{', taken when known' if i in plan.late else ''}"
        for i, size in enumerate(plan.slots)
    ]
    for op in block.ops:
        for result in op.results:
            if id(result) in plan.outputs:
                place = f"output {plan.outputs[id(result)]}"
            elif id(result) in plan.of:
                place = f"slot {plan.of[id(result)]}"
            else:
                continue
            lines.append(f"// {indent}{op.attrs.get('name', op.short)} {result.type}: {place}")
        if id(op) in plan.inner:
            lines.append(f"// {indent}{op.short}, what is inside: slot {plan.inner[id(op)]}")
            for region in op.regions:
                lines += _plan_lines(plan.blocks[id(region)], region, indent + "  ")
    return lines
