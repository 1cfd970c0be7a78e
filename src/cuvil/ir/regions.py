"""Regions under construction: values from outside become arguments when they are first read."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.ir.builder import Builder
from cuvil.ir.control import REQUIRE, require_attrs
from cuvil.ir.core import Block, Op, Value
from cuvil.ir.late import first_place
from cuvil.ir.types import TensorType
from cuvil.sym.constraint import Constraint

SOURCES = ("constant", "dims")


def is_source(value: Value) -> bool:
    """Whether a value is made of constants and sizes alone by few ops, so that a region that
    reads it has its own rather than an argument."""
    op = value.op
    if op is None:
        return False
    if op.short in SOURCES:
        return True
    return op.short in ("cast", "reshape") and is_source(op.operands[0])


class Region:
    """A block that is being filled by ``builder``, and what it captures.

    ``own`` are the arguments that stand for no outer value; ``captures`` the outer values, in the
    order of the arguments that follow.
    """

    def __init__(self, types: Sequence[TensorType] = (), names: Sequence[str] = ()) -> None:
        self.block = Block(types, names)
        self.own = list(self.block.args)
        self.captures: list[Value] = []
        self._inside: dict[int, Value] = {}

    def take(self, outer: Value, builder: Builder) -> Value:
        """The value inside that stands for one of the block around."""
        known = self._inside.get(id(outer))
        if known is None:
            known = self._copy(outer, builder) if is_source(outer) else self._argument(outer)
            self._inside[id(outer)] = known
        return known

    def _argument(self, outer: Value) -> Value:
        self.captures.append(outer)
        return self.block._add_arg(outer.type, outer.name)

    def _copy(self, outer: Value, builder: Builder) -> Value:
        """Made once more inside, before all else, so that every reader may use it."""
        op = outer.op
        assert op is not None
        operands = [self.take(v, builder) for v in op.operands]
        made = Op(op.name, operands, [outer.type], op.attrs, (), op.loc)
        anchor = self.block.first
        after = [v.op for v in operands]
        if after and after[0] is not None:
            anchor = after[0].next
        if anchor is None:
            self.block._append(made)
        else:
            self.block._insert_before(anchor, made)
        return made.result

    def close(self, results: Sequence[Value], builder: Builder, own: Sequence[Constraint]) -> None:
        """End the block: the constraints that hold in it come first, or as soon as the late symbols
        in them are bound, the results last."""
        builder.op("cuvil.yield", results, result_types=())
        for constraint in reversed(own):
            op = Op(REQUIRE, attrs=require_attrs(constraint), loc=builder.loc)
            self.block._insert_before(first_place(self.block, constraint.symbols()), op)


def align_captures(regions: Sequence[Region]) -> list[Value]:
    """Give all regions an argument for every outer value that one of them captures, in one order;
    returns those values."""
    order: dict[int, Value] = {}
    for region in regions:
        for value in region.captures:
            order.setdefault(id(value), value)
    for region in regions:
        have = {
            id(v): arg
            for v, arg in zip(region.captures, region.block.args[len(region.own) :], strict=True)
        }
        args = [have.get(key) or region.block._add_arg(v.type, v.name) for key, v in order.items()]
        region.block.args = [*region.own, *args]
        for index, arg in enumerate(region.block.args):
            arg.index = index
        region.captures = list(order.values())
    return list(order.values())
