"""Appends ops to a block, inferring their types from the operators' own rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cuvil.errors import CuvilError, InvalidModelError
from cuvil.ir.core import UNKNOWN, Block, Location, Op, Value
from cuvil.ir.types import TensorType


class TypeRules(Protocol):
    """What the builder needs of the operator table."""

    def __call__(
        self,
        name: str,
        operand_types: Sequence[TensorType],
        attrs: Mapping[str, Any],
        where: Location,
    ) -> list[TensorType]: ...


class Builder:
    """Creates ops at the end of a block, or before an op.

    ``bring``, if given, turns each operand into the value that stands for it in the block.
    """

    def __init__(self, block: Block, rules: TypeRules, before: Op | None = None) -> None:
        self.block = block
        self.rules = rules
        self.before = before
        self.loc = UNKNOWN
        self.made = 0  # how many ops so far, in all blocks
        self.bring: Callable[[Value], Value] | None = None

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        attrs: Mapping[str, Any] | None = None,
        *,
        regions: Sequence[Block] = (),
        result_types: Sequence[TensorType] | None = None,
        loc: Location | None = None,
    ) -> Op:
        """Create ``cuvil.<name>``. Types are inferred unless given. Errors gain the place."""
        full = name if "." in name else f"cuvil.{name}"
        place = loc or self.loc
        attrs = {k: v for k, v in (attrs or {}).items() if v is not None}
        if self.bring is not None:
            operands = [self.bring(v) for v in operands]
        if result_types is None:
            try:
                result_types = self.rules(full, [v.type for v in operands], attrs, place)
            except CuvilError as error:
                error.where = error.where or str(place)
                raise
            except (IndexError, KeyError, TypeError, ValueError) as error:
                raise InvalidModelError(f"{full}: {error}", where=str(place)) from error
        return self.insert(Op(full, operands, result_types, attrs, regions, place))

    def fill(self, block: Block, bring: Callable[[Value], Value] | None) -> None:
        """New ops go to the end of ``block`` from now on."""
        self.block, self.before, self.bring = block, None, bring

    def insert(self, op: Op) -> Op:
        """Put an op that belongs to no block where new ops go."""
        self.made += 1
        if self.before is not None:
            assert self.before.block is not None
            return self.before.block._insert_before(self.before, op)
        return self.block._append(op)

    def value(self, name: str, operands: Sequence[Value] = (), **attrs: Any) -> Value:
        """The only result of a new op: ``b.value("add", [x, y])``."""
        return self.op(name, operands, attrs).result
