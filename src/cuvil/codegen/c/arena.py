"""Where intermediates lie: one array an element type, offsets fixed when the model is compiled.

Every buffer has the size that it has at the largest shapes, and lives from the call that first
writes to it to the last that reads it. The largest are placed first, each at the lowest offset
where it meets none that lives at the same time (Pisarchyk and Lee, "Efficient memory management for
deep neural net inference", 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cuvil.codegen.kernel import Kernel, storage
from cuvil.errors import ShapeConstraintError
from cuvil.ir.control import IF, Loop, captures_of, is_control
from cuvil.ir.core import Block, Function, Op, Value
from cuvil.ir.types import F32, DType
from cuvil.passes.memory import alias_root
from cuvil.sym.expr import Dim, symbols_of
from cuvil.sym.facts import Facts

_ALIGNED = 4  # elements


@dataclass
class Buffer:
    """``size`` elements of one type, alive from ``begin`` to ``end``; ``what`` says whose."""

    what: str
    dtype: DType
    size: int
    begin: int
    end: int
    offset: int = 0

    @property
    def ctype(self) -> str:
        return storage(self.dtype)

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.size


@dataclass
class Arena:
    """The buffers of values, of kernels' scratch and of loops' spare places, by id."""

    values: dict[int, Buffer] = field(default_factory=dict)
    scratch: dict[int, Buffer] = field(default_factory=dict)
    spares: dict[int, list[Buffer]] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)  # id(value): which result of its block
    sizes: dict[str, int] = field(default_factory=dict)  # elements of each C type's array
    element_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def buffers(self) -> list[Buffer]:
        spares = [b for each in self.spares.values() for b in each]
        return [*self.values.values(), *self.scratch.values(), *spares]

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(n * self.element_bytes[t] for t, n in self.sizes.items())


def member(ctype: str) -> str:
    """The arena's member for a C type: f32, i64, u8..."""
    plain = {"float": "f32", "double": "f64"}.get(ctype)
    return plain or ctype.replace("uint", "u").replace("int", "i").removesuffix("_t")


def largest(dim: Dim, facts: Facts, what: str) -> int:
    """The greatest value of a size. Raises ShapeConstraintError where nothing bounds it."""
    if isinstance(dim, int):
        return max(dim, 1)
    high = facts.bounds(dim)[1]
    if high is None:
        free = [n for n in sorted(symbols_of(dim)) if facts.symbols.get(n, (0, None))[1] is None]
        names = ", ".join(repr(n) for n in free) or str(dim)
        raise ShapeConstraintError(
            f"memory for {what} has no limit: the dimension {names} has no maximum",
            hint=f"give one: cuvil.Dim({(free or ['n'])[0]!r}, max=128), or --dynamic "
            f"x:0={(free or ['n'])[0]}:1..128",
        )
    return max(high, 1)


def lay_out(function: Function, kernels: Mapping[int, Kernel], facts: Facts) -> Arena:
    """Buffers for everything that is no input, output or constant; ``kernels`` by id(op)."""
    planner = _Planner(kernels, facts)
    planner.block(function.body)
    arena = planner.arena
    by_type: dict[str, list[Buffer]] = {}
    for buffer in arena.buffers:
        by_type.setdefault(buffer.ctype, []).append(buffer)
    for ctype, buffers in sorted(by_type.items()):
        arena.sizes[ctype] = _place(buffers)
        arena.element_bytes[ctype] = buffers[0].dtype.size
    return arena


def _place(buffers: Iterable[Buffer]) -> int:
    placed: list[Buffer] = []
    end = 0
    for buffer in sorted(buffers, key=lambda b: (-b.size, b.begin)):
        offset = 0
        for other in sorted(placed, key=lambda b: b.offset):
            if other.end < buffer.begin or buffer.end < other.begin:
                continue
            if offset + buffer.size <= other.offset:
                break
            offset = max(offset, -(-(other.offset + other.size) // _ALIGNED) * _ALIGNED)
        buffer.offset = offset
        placed.append(buffer)
        end = max(end, offset + buffer.size)
    return end


class _Planner:
    """Numbers the calls of a function in order, those of regions too, and finds lifetimes."""

    def __init__(self, kernels: Mapping[int, Kernel], facts: Facts) -> None:
        self.kernels = kernels
        self.facts = facts
        self.arena = Arena()
        self.clock = 0
        self._stands_for: dict[int, Value] = {}

    def root(self, value: Value) -> Value:
        """The value whose memory this is, also seen through arguments of regions."""
        root = alias_root(value)
        while id(root) in self._stands_for:
            root = alias_root(self._stands_for[id(root)])
        return root

    def _read(self, value: Value) -> None:
        buffer = self.arena.values.get(id(self.root(value)))
        if buffer is not None:
            buffer.end = max(buffer.end, self.clock)

    def _buffer(self, what: str, dtype: DType, elements: Dim) -> Buffer:
        size = largest(elements, self.facts, what)
        return Buffer(what, dtype, size, self.clock, self.clock)

    def block(self, block: Block) -> None:
        """The ops of a block; its results are written where the caller wants them."""
        for index, value in enumerate(block.terminator.operands):
            root = alias_root(value)
            if root.op is not None and root.op.short != "constant":
                self.arena.outputs.setdefault(id(root), index)
        for op in block.ops:
            if op.short in ("constant", "reshape"):
                continue
            self.clock += 1
            for operand in op.operands:
                self._read(operand)
            for result in op.results:
                if id(result) not in self.arena.outputs:
                    name = op.attrs.get("name", op.short)
                    what = f"{name} {list(result.type.shape)} ({op.loc})"
                    self.arena.values[id(result)] = self._buffer(
                        what, result.type.dtype, result.type.elements
                    )
            kernel = self.kernels.get(id(op))
            if kernel is not None and kernel.scratch is not None:
                what = f"scratch of {kernel.title} ({op.loc})"
                self.arena.scratch[id(op)] = self._buffer(what, F32, kernel.scratch)
            if is_control(op):
                self._control(op)

    def _control(self, op: Op) -> None:
        start = self.clock
        if op.name != IF:
            self.arena.spares[id(op)] = [
                self._buffer(f"a loop's value ({op.loc})", r.type.dtype, r.type.elements)
                for r in Loop(op).results
            ]
        for region in op.regions:
            args = region.args[1:] if op.name != IF else region.args
            lead = len(args) - len(captures_of(op))
            for arg, value in zip(args[lead:], captures_of(op), strict=True):
                self._stands_for[id(arg)] = value
            self.block(region)
        self.clock += 1
        for operand in op.operands:
            self._read(operand)
        own = [self.arena.values[id(r)] for r in op.results if id(r) in self.arena.values]
        for buffer in [*own, *self.arena.spares.get(id(op), ())]:
            buffer.begin, buffer.end = start, max(buffer.end, self.clock)
