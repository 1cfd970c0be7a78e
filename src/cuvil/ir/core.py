"""The graph: values, operations, blocks, functions, modules.

SSA and functional at graph level. Blocks are doubly linked lists, and every value knows its uses,
so that a local change costs a constant. Reading is free for everyone; the methods whose name
starts with an underscore change the graph and are called by the builder and the Rewriter alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvil.ir.types import TensorType, dtype_of
from cuvil.sym.constraint import Constraint
from cuvil.sym.known import KnownFacts


@dataclass(frozen=True)
class Location:
    """Where a value comes from: the source node's name and, if known, the line of user code."""

    name: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.source})" if self.source else self.name


UNKNOWN = Location()


class Weight:
    """A constant tensor's data; compared by identity, named and hashed by content."""

    __slots__ = ("_digest", "array", "name")

    def __init__(self, array: np.ndarray[Any, Any], name: str = "") -> None:
        self.array = np.ascontiguousarray(array).reshape(array.shape)
        self.name = name
        self._digest: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 over dtype, shape and bytes, in hex."""
        if self._digest is None:
            h = hashlib.sha256(f"{self.array.dtype}{self.array.shape}".encode())
            h.update(self.array.reshape(-1).view(np.uint8).data)
            self._digest = h.hexdigest()
        return self._digest

    @property
    def type(self) -> TensorType:
        return TensorType(self.array.shape, dtype_of(self.array.dtype))


Attr = Any


class Value:
    """A result of an op, or an argument of a block."""

    __slots__ = ("index", "name", "owner", "type", "uses")

    def __init__(self, type: TensorType, owner: Op | Block, index: int, name: str = "") -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name
        self.uses: dict[tuple[int, int], Op] = {}

    @property
    def op(self) -> Op | None:
        """The op that makes this value; None for a block argument."""
        return self.owner if isinstance(self.owner, Op) else None

    @property
    def users(self) -> list[Op]:
        """The ops that use this value, each once, in order of first use."""
        return list({id(op): op for op in self.uses.values()}.values())

    @property
    def only_user(self) -> Op | None:
        """The single op that uses this value exactly once, if there is just that use."""
        return next(iter(self.uses.values())) if len(self.uses) == 1 else None

    def __repr__(self) -> str:
        return f"<Value {self.name or self.index} {self.type}>"


class Op:
    """One operation. ``name`` is the full name, such as ``cuvil.add``."""

    __slots__ = ("attrs", "block", "loc", "name", "next", "operands", "prev", "regions", "results")

    def __init__(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[TensorType] = (),
        attrs: Mapping[str, Attr] | None = None,
        regions: Sequence[Block] = (),
        loc: Location = UNKNOWN,
    ) -> None:
        self.name = name
        self.operands: list[Value] = []
        self.attrs: dict[str, Attr] = dict(attrs or {})
        self.regions: list[Block] = list(regions)
        self.loc = loc
        self.block: Block | None = None
        self.prev: Op | None = None
        self.next: Op | None = None
        self.results = [Value(t, self, i) for i, t in enumerate(result_types)]
        for region in self.regions:
            region.parent = self
        self._set_operands(operands)

    @property
    def result(self) -> Value:
        """The only result."""
        if len(self.results) != 1:
            raise ValueError(f"{self.name} has {len(self.results)} results")
        return self.results[0]

    @property
    def type(self) -> TensorType:
        return self.result.type

    @property
    def short(self) -> str:
        """The name without its dialect."""
        return self.name.rsplit(".", 1)[-1]

    def _set_operands(self, operands: Sequence[Value]) -> None:
        for i, value in enumerate(self.operands):
            value.uses.pop((id(self), i), None)
        self.operands = list(operands)
        for i, value in enumerate(self.operands):
            value.uses[(id(self), i)] = self

    def _set_operand(self, index: int, value: Value) -> None:
        self.operands[index].uses.pop((id(self), index), None)
        self.operands[index] = value
        value.uses[(id(self), index)] = self

    def _unlink(self) -> None:
        block = self.block
        if block is None:
            return
        if self.prev is None:
            block.first = self.next
        else:
            self.prev.next = self.next
        if self.next is None:
            block.last = self.prev
        else:
            self.next.prev = self.prev
        self.block = self.prev = self.next = None

    def _drop(self) -> None:
        """Unlink, and release operands, here and in the regions."""
        self._unlink()
        self._set_operands(())
        for region in self.regions:
            for op in list(region.ops):
                op._drop()

    def __repr__(self) -> str:
        return f"<Op {self.name} at {self.loc}>"


class Block:
    """Arguments and a list of ops, the last of which yields or returns."""

    __slots__ = ("args", "first", "last", "parent")

    def __init__(self, arg_types: Sequence[TensorType] = (), names: Sequence[str] = ()) -> None:
        self.args = [
            Value(t, self, i, names[i] if i < len(names) else "") for i, t in enumerate(arg_types)
        ]
        self.first: Op | None = None
        self.last: Op | None = None
        self.parent: Op | Function | None = None

    @property
    def ops(self) -> Iterator[Op]:
        """The ops in order; the current one may be erased while iterating."""
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    @property
    def terminator(self) -> Op:
        if self.last is None:
            raise ValueError("the block is empty")
        return self.last

    def _append(self, op: Op) -> Op:
        op.block = self
        op.prev = self.last
        if self.last is None:
            self.first = op
        else:
            self.last.next = op
        self.last = op
        return op

    def _insert_before(self, anchor: Op, op: Op) -> Op:
        op.block = self
        op.prev = anchor.prev
        op.next = anchor
        if anchor.prev is None:
            self.first = op
        else:
            anchor.prev.next = op
        anchor.prev = op
        return op

    def _add_arg(self, type: TensorType, name: str = "") -> Value:
        value = Value(type, self, len(self.args), name)
        self.args.append(value)
        return value


@dataclass
class Function:
    """A polymorphic function: ``forall symbols. (inputs) -> outputs`` where constraints hold.

    ``symbols`` maps a name to its inclusive bounds (low, high or None). ``known``
    keeps what was proved of them.
    """

    name: str
    body: Block
    input_names: list[str]
    output_names: list[str]
    symbols: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)
    known: KnownFacts = field(default_factory=KnownFacts, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.body.parent = self

    @property
    def inputs(self) -> list[Value]:
        return self.body.args

    @property
    def outputs(self) -> list[Value]:
        return self.body.terminator.operands

    def walk(self) -> Iterator[Op]:
        """Every op, outer before inner."""
        yield from walk(self.body)


def walk(block: Block) -> Iterator[Op]:
    """Every op of the block and of the regions inside, outer before inner."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)


@dataclass
class Module:
    """One compiled program: its entry function, and facts about its source."""

    main: Function
    name: str = "model"
    stage: str = "captured"
    call: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
