"""Control flow: ``scf.if``, ``scf.for``, ``scf.while``, and ``cuvil.require``.

Regions are isolated, as that of ``cuvil.fused``: a value from outside that a region reads is an
operand of the op, and an argument of the region's block stands for it. Regions end with
``cuvil.yield``.

- ``scf.if(condition, captures...)``: two regions ``(captures...) -> (results...)``.
- ``scf.for(inits..., captures...) {carried, trips}``: one region ``(step, carried..., captures...)
  -> (carried..., rows...)``, run ``trips`` times. Results: the carried values, then the rows of
  all trips, stacked along a new first dimension.
- ``scf.while(limit, condition, inits..., captures...) {carried}``: the same region without rows,
  which first yields whether to go on; it runs while the condition is true, at most ``limit`` times.
- ``cuvil.require() {left, relation, right, origin}``: a constraint that holds wherever its block
  is run, and is checked there. It has no results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cuvil.ir.core import Block, Function, Op, Value
from cuvil.ir.types import BOOL, I64, TensorType
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim

IF, FOR, WHILE, REQUIRE = "scf.if", "scf.for", "scf.while", "cuvil.require"
CONTROL = (IF, FOR, WHILE)
STEP = TensorType((), I64)
CONDITION = TensorType((), BOOL)


def is_control(op: Op) -> bool:
    """Whether the op's regions run as the condition or the number of trips says."""
    return op.name in CONTROL


def lead_of(op: Op) -> int:
    """How many operands stand before those that the regions' arguments stand for."""
    return {IF: 1, FOR: 0, WHILE: 2}[op.name]


@dataclass(frozen=True)
class Loop:
    """The parts of an ``scf.for`` or ``scf.while``."""

    op: Op

    @property
    def conditional(self) -> bool:
        return self.op.name == WHILE

    @property
    def carried(self) -> int:
        """How many values go from trip to trip."""
        return int(self.op.attrs["carried"])

    @property
    def trips(self) -> Dim:
        """The number of trips of an ``scf.for``."""
        trips: Dim = self.op.attrs["trips"]
        return trips

    @property
    def body(self) -> Block:
        return self.op.regions[0]

    @property
    def inits(self) -> list[Value]:
        lead = lead_of(self.op)
        return self.op.operands[lead : lead + self.carried]

    @property
    def captures(self) -> list[Value]:
        return self.op.operands[lead_of(self.op) + self.carried :]

    @property
    def carried_args(self) -> list[Value]:
        return self.body.args[1 : 1 + self.carried]

    @property
    def captured_args(self) -> list[Value]:
        return self.body.args[1 + self.carried :]

    @property
    def going(self) -> Value | None:
        """What a ``scf.while`` yields as its condition."""
        return self.body.terminator.operands[0] if self.conditional else None

    @property
    def next(self) -> list[Value]:
        """The carried values that a trip yields."""
        first = int(self.conditional)
        return self.body.terminator.operands[first : first + self.carried]

    @property
    def rows(self) -> list[Value]:
        """The values of one trip that are stacked."""
        return self.body.terminator.operands[int(self.conditional) + self.carried :]

    @property
    def results(self) -> list[Value]:
        """The results that are carried values."""
        return self.op.results[: self.carried]

    @property
    def stacks(self) -> list[Value]:
        """The results that are stacked rows."""
        return self.op.results[self.carried :]


def captures_of(op: Op) -> list[Value]:
    """The operands that every region has an argument for."""
    return Loop(op).captures if op.name != IF else op.operands[1:]


def signature_fault(op: Op) -> str | None:
    """What is wrong with an op's number of regions, operands and results, or None."""
    if op.name == IF:
        if len(op.regions) != 2 or not op.operands or op.operands[0].type != CONDITION:
            return "needs a condition of one bool and two regions"
        return None
    lead = lead_of(op)
    carried = op.attrs.get("carried")
    if len(op.regions) != 1 or not isinstance(carried, int):
        return "needs one region and the number of carried values"
    if len(op.operands) < lead + carried or len(op.results) < carried:
        return f"needs {carried} initial values and as many results"
    if op.name == WHILE and [v.type for v in op.operands[:2]] != [STEP, CONDITION]:
        return "needs a limit of one i64 and a condition of one bool"
    if op.name == WHILE and len(op.results) != carried:
        return "has results that are no carried values: the number of its trips is not known"
    return None


def argument_types(op: Op) -> list[TensorType]:
    """The types that a region's arguments have."""
    if op.name == IF:
        return [v.type for v in op.operands[1:]]
    return [STEP, *(v.type for v in op.operands[lead_of(op) :])]


def yielded_types(op: Op) -> list[TensorType]:
    """The types that a region yields, read off the results."""
    if op.name == IF:
        return [v.type for v in op.results]
    loop = Loop(op)
    going = [CONDITION] if loop.conditional else []
    rows = [v.type.with_shape(v.type.shape[1:]) for v in loop.stacks]
    return [*going, *(v.type for v in loop.results), *rows]


def inside(op: Op, place: int) -> list[Value]:
    """The regions' arguments that operand ``place`` of an op of control flow stands for."""
    at = place - lead_of(op) + int(op.name != IF)
    return [region.args[at] for region in op.regions] if place >= lead_of(op) else []


def constraint_of(op: Op) -> Constraint:
    """What a ``cuvil.require`` demands."""
    a = op.attrs
    return Constraint(a["left"], a["relation"], a["right"], a["origin"])


def requirements(block: Block) -> list[Constraint]:
    """The constraints that hold wherever the block is run, those of regions inside left out."""
    return [constraint_of(op) for op in block.ops if op.name == REQUIRE]


def inner_checks(function: Function) -> list[Constraint]:
    """What regions require where they are run, each once: the order numbers them."""
    found = (constraint_of(op) for op in function.walk() if op.name == REQUIRE)
    return list(dict.fromkeys(found))


def require_attrs(constraint: Constraint) -> dict[str, object]:
    """The attributes of a ``cuvil.require``."""
    return {
        "left": constraint.left,
        "relation": constraint.relation,
        "right": constraint.right,
        "origin": constraint.origin,
    }


class RegionView(Function):
    """A region as a function, so that what works on functions works on it.

    Symbols are shared with the function around it; the constraints are those around it and its
    own. The block stays the op's.
    """

    def __init__(self, outer: Function, op: Op, block: Block) -> None:
        names = [f"arg{i}" for i in range(len(block.args))]
        results = [f"out{i}" for i in range(len(block.terminator.operands))]
        self.op = op
        self.outer = outer
        super().__init__(
            outer.name, block, names, results, outer.symbols,
            [*outer.constraints, *requirements(block)],
        )  # fmt: skip

    def __post_init__(self) -> None:
        """The block keeps its parent."""


def region_views(function: Function) -> Iterator[RegionView]:
    """The regions of control flow in a body, outer before inner."""
    for op in function.body.ops:
        if is_control(op):
            for block in op.regions:
                view = RegionView(function, op, block)
                yield view
                yield from region_views(view)


def blocks(function: Function) -> Iterator[Block]:
    """The body, and every region of control flow inside, outer before inner."""
    yield function.body
    for view in region_views(function):
        yield view.body


def unused_arguments(regions: Sequence[Block], first: int) -> set[int]:
    """Places from ``first`` on of arguments that no region reads."""
    count = len(regions[0].args)
    return {i for i in range(first, count) if not any(r.args[i].uses for r in regions)}
