"""The only hand that changes a graph after capture.

Every change is begun with a label, counted, recorded if asked, and refused once the fuel is used
up, so that a wrong result can be bisected to one rewrite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuvil.ir.builder import Builder
from cuvil.ir.clone import ValueMap, clone_op
from cuvil.ir.control import REQUIRE, constraint_of, require_attrs
from cuvil.ir.core import UNKNOWN, Block, Function, Location, Op, Value
from cuvil.ir.late import first_place
from cuvil.ir.types import TensorType
from cuvil.ops.base import ShapeContext
from cuvil.ops.typing import Inference
from cuvil.sym.constraint import Constraint


@dataclass
class Trace:
    """Firings and refusals, kept when ``detailed``; counts are always kept.

    ``stops`` are the places where fusion ended before a kernel: the kernel's op, a group of ops
    that it reads, in words, and the reason.
    """

    detailed: bool = False
    fired: Counter[str] = field(default_factory=Counter)
    refused: dict[str, Counter[str]] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    stops: list[tuple[Op, str, str]] = field(default_factory=list)

    def fire(self, label: str, op: Op) -> None:
        self.fired[label] += 1
        if self.detailed:
            self.log.append((label, f"{op.name} at {op.loc}"))

    def refuse(self, label: str, op: Op, reason: str) -> None:
        if self.detailed:
            self.refused.setdefault(label, Counter())[f"{op.name} at {op.loc}: {reason}"] += 1

    def stop(self, label: str, made: Op, place: Op, read: Op, reason: str) -> None:
        """``made``, at its op ``place``, did not take in what makes the result of ``read``."""
        if self.detailed:
            self.stops.append((made, f"{read.short} at {read.loc}", reason))
            self.refuse(label, place, f"does not join {read.short} at {read.loc}: {reason}")


@dataclass
class Fuel:
    """How many more changes may be made; None for any number.

    Changes that a kernel can't be made without are required: they are free, so that a module
    still compiles without fuel, unless ``strict``. ``last`` is the change that took the last
    unit: its label and its place.
    """

    left: int | None = None
    strict: bool = False
    last: tuple[str, str] | None = None

    def take(self, label: str, op: Op, required: bool = False) -> bool:
        """Use one unit; False when there is none left."""
        if self.left is None or (required and not self.strict):
            return True
        if self.left <= 0:
            return False
        self.left -= 1
        if self.left == 0:
            self.last = (label, f"{op.name} at {op.loc}")
        return True


class Rewriter(Builder):
    """Changes one function. ``begin`` must grant each change before it is made.

    As a builder it puts new ops at the insertion point that ``begin`` or ``at`` chose.
    """

    def __init__(
        self, function: Function, fuel: Fuel | None = None, trace: Trace | None = None
    ) -> None:
        self.function = function
        self.fuel = fuel or Fuel()
        self.trace = trace or Trace()
        self.context = ShapeContext(
            function.symbols, function.constraints, known=function.known
        )
        self.created: list[Op] = []
        super().__init__(function.body, Inference(self.context))

    def begin(self, label: str, op: Op, required: bool = False) -> bool:
        """Ask leave for one change at ``op``; new ops go before it. False: out of fuel."""
        if not self.fuel.take(label, op, required):
            return False
        self.trace.fire(label, op)
        self.at(op)
        return True

    def at(self, op: Op) -> None:
        """New ops go before ``op`` and take its location."""
        assert op.block is not None
        self.block = op.block
        self.before = op
        self.loc = op.loc

    def at_end(self, block: Block, loc: Location = UNKNOWN) -> None:
        """New ops go to the end of ``block``."""
        self.block = block
        self.before = None
        self.loc = loc

    def insert(self, op: Op) -> Op:
        """Put an op that belongs to no block at the insertion point."""
        self.created.append(op)
        return super().insert(op)

    def require(self, block: Block, constraints: Sequence[Constraint]) -> None:
        """Let these constraints hold wherever ``block`` is run, from where their symbols are."""
        for constraint in reversed(constraints):
            self.at(first_place(block, constraint.symbols()))
            self.op(REQUIRE, attrs=require_attrs(constraint), result_types=())

    def inline(self, block: Block, operands: Sequence[Value]) -> list[Value]:
        """The block's ops once more at the insertion point; what it yields for these operands.
        Constraints that hold in it hold here then."""
        values: ValueMap = dict(zip(block.args, operands, strict=True))
        for op in block.ops:
            if op.name == "cuvil.yield":
                return [values[v] for v in op.operands]
            if op.name == REQUIRE:
                self._assume(constraint_of(op))
                continue
            self.insert(clone_op(op, values))
        raise ValueError("the block does not end with cuvil.yield")

    def _assume(self, constraint: Constraint) -> None:
        known = self.context.constraints
        if constraint not in known and constraint.known() is not True:
            known.append(constraint)

    def region(
        self,
        block: Block,
        arguments: Sequence[Sequence[Value]],
        yields: Sequence[int],
        sources: Mapping[Value, Value] | None = None,
    ) -> Block:
        """A copy of a region. Each new argument stands for some old ones; an old argument in
        ``sources`` becomes a copy of that outer value, made of constants and sizes. Only the
        results ``yields`` are kept, and what they need; that must not read other arguments."""
        new = Block([old[0].type for old in arguments], [old[0].name for old in arguments])
        values: ValueMap = {}
        for replaced, argument in zip(arguments, new.args, strict=True):
            values.update((old, argument) for old in replaced)
        for old, outer in (sources or {}).items():
            values[old] = _source_copy(outer, new)
        end = block.terminator
        results = [end.operands[i] for i in yields]
        needed = needed_ops(block, results)
        for op in block.ops:
            if op is not end and id(op) not in needed:
                continue
            operands = results if op is end else op.operands
            new._append(clone_op(op, values, operands=[values[v] for v in operands]))
        return new

    def replace_value(self, old: Value, new: Value) -> None:
        """Let every user of ``old`` use ``new``."""
        if old is new:
            return
        for (_, index), user in list(old.uses.items()):
            user._set_operand(index, new)
        if not new.name:
            new.name = old.name

    def replace(self, op: Op, values: Sequence[Value]) -> None:
        """Replace the results of ``op`` and erase it."""
        for old, new in zip(op.results, values, strict=True):
            self.replace_value(old, new)
        self.erase(op)

    def erase(self, op: Op) -> None:
        """Remove an op none of whose results is used."""
        assert not any(r.uses for r in op.results), f"{op.name} is still used"
        op._drop()

    def set_operand(self, op: Op, index: int, value: Value) -> None:
        """Let ``op`` use another value."""
        op._set_operand(index, value)

    def set_attrs(self, op: Op, **attrs: Any) -> None:
        """Change attributes; None removes one."""
        for key, value in attrs.items():
            if value is None:
                op.attrs.pop(key, None)
            else:
                op.attrs[key] = value

    def set_type(self, value: Value, type: TensorType) -> None:
        """Give a value a better known type."""
        value.type = type

    def add_arg(self, block: Block, type: TensorType, name: str = "") -> Value:
        """A new argument of a region's block."""
        return block._add_arg(type, name)

    def move_before(self, op: Op, anchor: Op) -> None:
        """Move an op in its block."""
        op._unlink()
        assert anchor.block is not None
        anchor.block._insert_before(anchor, op)


def needed_ops(block: Block, results: Sequence[Value]) -> dict[int, Op]:
    """By identity, the ops of a block that these results depend on, and those without results
    (they bind symbols or require something) with what they depend on."""
    needed: dict[int, Op] = {}
    todo = [v.op for v in results]
    todo += [op for op in block.ops if not op.results and op is not block.terminator]
    while todo:
        op = todo.pop()
        if op is not None and id(op) not in needed:
            needed[id(op)] = op
            todo += [v.op for v in op.operands]
    return needed


def _source_copy(value: Value, block: Block) -> Value:
    op = value.op
    assert op is not None
    operands = [_source_copy(v, block) for v in op.operands]
    return block._append(clone_op(op, {}, operands=operands)).result
