"""What a value of a module is computed from: inputs, and small constants."""

from __future__ import annotations

from cuvil.ir.control import IF, Loop, is_control, lead_of
from cuvil.ir.core import Block, Function, Op, Value

_SMALL = 16


class Dependence:
    """What values depend on: inputs by number, and small constants."""

    def __init__(self) -> None:
        self.inputs: set[int] = set()
        self.constants: set[float] = set()
        self._seen: set[int] = set()

    def follow(self, value: Value) -> None:
        """Add what ``value`` is computed from."""
        todo = [value]
        while todo:
            current = todo.pop()
            if id(current) in self._seen:
                continue
            self._seen.add(id(current))
            op = current.op
            if op is None:
                todo += self._outer(current)
            elif is_control(op):
                todo += [r.terminator.operands[-len(op.results) + current.index]
                         for r in op.regions]  # fmt: skip
                todo += op.operands[: lead_of(op)]
            elif op.short == "constant":
                array = op.attrs["value"].array
                if array.size <= _SMALL:
                    self.constants |= {float(x) for x in array.reshape(-1)}
            else:
                todo += op.operands

    def _outer(self, argument: Value) -> list[Value]:
        """The values around a region that one of its arguments stands for."""
        block = argument.owner
        assert isinstance(block, Block)
        if isinstance(block.parent, Function):
            self.inputs.add(argument.index)
        if not isinstance(block.parent, Op) or not is_control(block.parent):
            return []
        op = block.parent
        first = int(op.name != IF)
        if argument.index < first:
            return []
        found = [op.operands[lead_of(op) + argument.index - first]]
        if op.name != IF and argument.index - first < Loop(op).carried:
            found.append(Loop(op).next[argument.index - first])
        return found
