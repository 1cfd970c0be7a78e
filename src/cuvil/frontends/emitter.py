"""What every frontend needs to write canonical IR: broadcasting, casts, constants, shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cuvil.analysis.shape_values import ShapeValues
from cuvil.ir.builder import Builder
from cuvil.ir.control import FOR, IF, WHILE
from cuvil.ir.core import Block, Function, Location, Module, Value, Weight
from cuvil.ir.regions import Region, align_captures
from cuvil.ir.types import I64, DType, Shape, TensorType
from cuvil.ops.base import ShapeContext
from cuvil.ops.movement import slice_size
from cuvil.ops.typing import Inference
from cuvil.rewrite.driver import prune
from cuvil.sym.constraint import Constraint
from cuvil.sym.equality import Equality
from cuvil.sym.expr import Dim, add, maximum, minimum

COMPOSED = "composed"  # a module's source: the registered operators that compositions stand for


class Emitter:
    """Builds one function. Methods take and give :class:`Value`; shapes may be symbolic.

    ``loc`` is the source node being translated; set it before emitting its ops.
    """

    def __init__(self, symbols: dict[str, tuple[int, int | None]] | None = None) -> None:
        self.context = ShapeContext(symbols)
        self.block = Block()
        self.builder = Builder(self.block, Inference(self.context))
        self.shapes = ShapeValues(self.context.facts)
        self._weights: dict[int, tuple[Any, Value]] = {}
        self._bound: dict[int, tuple[Value, list[Dim]]] = {}
        self._regions: list[Region] = []
        self._places = 0  # for values that loops put aside
        self.discarded = False  # whether something was emitted in vain, which may not even run
        self.composed: set[str] = set()  # registered operators that were written with others
        self._known: list[int] = []  # how many constraints hold around each region

    @contextmanager
    def region(
        self, types: Sequence[TensorType] = (), names: Sequence[str] = ()
    ) -> Iterator[Region]:
        """What is emitted meanwhile goes into a region with these arguments. Values from around
        may be read: they become captures. Constraints that arise hold in the region alone; the
        caller ends it with :meth:`close` inside the ``with``."""
        region = Region(types, names)
        kept, place = (self.block, self._weights, self.context.constraints), self.loc
        self._known.append(len(kept[2]))
        self.block = region.block
        self.builder.fill(self.block, self.here)
        self._weights, self.context.constraints = dict(kept[1]), list(kept[2])
        bound, self._bound = self._bound, dict(self._bound)
        self._regions.append(region)
        try:
            yield region
        finally:
            self._regions.pop()
            self._known.pop()
            self.block, self._weights, self.context.constraints = kept
            self._bound = bound
            self.builder.fill(self.block, self.here if self._regions else None)
            self.loc = place

    def close(self, results: Sequence[Value]) -> None:
        """End the region under construction."""
        own = self.context.constraints[self._known[-1] :]
        self._regions[-1].close(results, self.builder, own)

    def here(self, value: Value) -> Value:
        """The value that stands for ``value`` in the block under construction."""
        return self._bring(value, len(self._regions) - 1)

    def _bring(self, value: Value, level: int) -> Value:
        home = value.op.block if value.op is not None else value.owner
        if level < 0 or home is self._regions[level].block:
            return value
        return self._regions[level].take(self._bring(value, level - 1), self.builder)

    def same_type(self, a: TensorType, b: TensorType, extra: Sequence[Constraint] = ()) -> bool:
        """Whether dtypes and ranks are equal, and the sizes as far as can be proved."""
        if a.shape == b.shape or a.dtype != b.dtype or a.rank != b.rank:
            return a == b
        known = [*self.context.constraints, *extra]
        prove = Equality(self.context.symbols, known).proved
        return all(prove(x, y) for x, y in zip(a.shape, b.shape, strict=True))

    def new_place(self) -> int:
        """The number of a place for a value that a loop puts aside (ir/keeping.py)."""
        self._places += 1
        return self._places - 1

    def branch(
        self, condition: Value, regions: Sequence[Region], types: Sequence[TensorType]
    ) -> list[Value]:
        """The results of an ``scf.if`` with these closed regions, then and else."""
        captures = align_captures(regions)
        return self.builder.op(
            IF, [condition, *captures], {}, regions=[r.block for r in regions], result_types=types
        ).results

    def loop(
        self,
        name: str,
        lead: Sequence[Value],
        inits: Sequence[Value],
        region: Region,
        types: Sequence[TensorType],
        **attrs: Any,
    ) -> list[Value]:
        """The results of an ``scf.for`` (no ``lead``) or ``scf.while`` (limit, condition)."""
        assert name in (FOR, WHILE)
        return self.builder.op(
            name, [*lead, *inits, *region.captures], {"carried": len(inits), **attrs},
            regions=[region.block], result_types=types,
        ).results  # fmt: skip

    @property
    def trips(self) -> list[Value]:
        """The number of the current trip (i64) of each loop around, the outermost first."""
        return [region.own[0] for region in self._regions if region.own]

    @property
    def loc(self) -> Location:
        return self.builder.loc

    @loc.setter
    def loc(self, place: Location) -> None:
        self.builder.loc = place
        self.context.origin = str(place)

    def input(self, name: str, type: TensorType) -> Value:
        """A new function argument."""
        return self.block._add_arg(type, name)

    def op(self, name: str, *operands: Value, **attrs: Any) -> Value:
        """The only result of a new ``cuvil.<name>``."""
        return self.builder.value(name, operands, **attrs)

    def results(self, name: str, *operands: Value, **attrs: Any) -> list[Value]:
        """All results of a new op."""
        return self.builder.op(name, operands, attrs).results

    def weight(self, array: np.ndarray[Any, Any], name: str = "") -> Value:
        """A constant; the same array object gives the same value again."""
        kept = self._weights.get(id(array))
        if kept is None:
            kept = (array, self.builder.value("constant", value=Weight(array, name)))
            self._weights[id(array)] = kept
        return kept[1]

    def bind(
        self, values: Value, names: Sequence[str], what: str, high: Sequence[int | None] = ()
    ) -> list[Dim]:
        """Late symbols for the elements of a small i64 tensor, sizes of 0 or more (up to ``high``).

        The same tensor gives the same symbols again. ``what`` says what they are, for errors.
        """
        kept = self._bound.get(id(values))
        if kept is None:
            symbols: list[Dim] = [
                self.context.new_symbol(name, 0, high[i] if i < len(high) else None)
                for i, name in enumerate(names)
            ]
            self.builder.op("sizes", [values], {"binds": tuple(symbols), "what": what})
            kept = self._bound[id(values)] = (values, symbols)
        return list(kept[1])

    def count(self, mask: Value, name: str, what: str) -> Dim:
        """A late symbol for how many elements of a bool tensor are true."""
        most = mask.type.elements
        ones = self.cast(mask if mask.type.rank else self.reshape(mask, (1,)), I64)
        total = self.op("reduce_sum", ones, axes=tuple(range(ones.type.rank)), keepdims=False)
        return self.bind(total, [name], what, [most if isinstance(most, int) else None])[0]

    def positions(self, mask: Value, name: str, what: str) -> Value:
        """Where the true elements of a bool tensor lie, in its flat order: [late symbol] i64."""
        flat = self.reshape(mask, [mask.type.elements])
        return self.op("positions", flat, size=self.count(mask, name, what))

    def scalar(self, number: float | int | bool, dtype: DType) -> Value:
        """A rank-0 constant."""
        return self.weight(np.asarray(number).astype(dtype.numpy))

    def cast(self, value: Value, dtype: DType) -> Value:
        """Cast unless it has that dtype already."""
        return value if value.type.dtype == dtype else self.op("cast", value, dtype=dtype)

    def broadcast(self, value: Value, shape: Shape) -> Value:
        """Broadcast unless it has that shape already."""
        if value.type.shape == tuple(shape):
            return value
        return self.op("broadcast", value, shape=tuple(shape))

    def map(self, name: str, *operands: Value, **attrs: Any) -> Value:
        """An elementwise op over operands broadcast to their common shape (one dtype each)."""
        shape = self.context.broadcast([v.type.shape for v in operands], name)
        return self.op(name, *(self.broadcast(v, shape) for v in operands), **attrs)

    def with_scalar(self, name: str, value: Value, number: float | int | bool) -> Value:
        """``name(value, number)`` with the number in the value's dtype."""
        return self.map(name, value, self.scalar(number, value.type.dtype))

    def reshape(self, value: Value, shape: Sequence[Dim]) -> Value:
        """Reshape unless it has that shape already."""
        shape = tuple(shape)
        return value if value.type.shape == shape else self.op("reshape", value, shape=shape)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Transpose unless it is the identity."""
        if list(perm) == list(range(value.type.rank)):
            return value
        return self.op("transpose", value, perm=tuple(perm))

    def unsqueeze(self, value: Value, axis: int) -> Value:
        """A new dimension of size 1; a negative axis counts in the result's rank."""
        axis %= value.type.rank + 1
        shape = value.type.shape
        return self.reshape(value, (*shape[:axis], 1, *shape[axis:]))

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        """Drop dimensions of size 1 (a symbolic one is required to be 1)."""
        drop = {a % value.type.rank for a in axes}
        for a in drop:
            self.context.same(value.type.shape[a], 1, f"squeeze: dimension {a}")
        return self.reshape(value, [d for i, d in enumerate(value.type.shape) if i not in drop])

    def dims(self, values: Sequence[Dim], *, scalar: bool = False) -> Value:
        """Dims as an i64 tensor."""
        return self.op("dims", values=tuple(values), scalar=scalar or None)

    def slice(self, value: Value, axis: int, start: Dim, stop: Dim, step: int = 1) -> Value:
        """Python slicing along one axis: negative ends count from the back, both are clamped.

        With a negative step a start before the front is the front, as ONNX has it (Slice-13).
        Ends whose sign or side of the dimension isn't known are clamped symbolically.
        """
        rank = value.type.rank
        axis %= rank
        size = value.type.shape[axis]
        low, high = self._clamp(start, size, step), self._clamp(stop, size, step)
        if step < 0:
            low = self.simplify(minimum(maximum(low, 0), add(size, -1)))
        count = self.simplify(maximum(slice_size(low, high, step), 0))
        if count == size and step == 1 and low == 0:
            return value
        starts: list[Dim] = [0] * rank
        sizes: list[Dim] = list(value.type.shape)
        steps = [1] * rank
        starts[axis], sizes[axis], steps[axis] = low, count, step
        return self.op("slice", value, start=tuple(starts), size=tuple(sizes), step=tuple(steps))

    def _clamp(self, end: Dim, size: Dim, step: int) -> Dim:
        if isinstance(end, int) and end < 0:
            end = add(size, end)
        low, high = (0, size) if step > 0 else (-1, add(size, -1))
        return self.simplify(maximum(minimum(end, high), low))

    def simplify(self, value: Dim) -> Dim:
        """Simplified with the bounds known so far."""
        return self.context.facts.simplify(value)

    def known(self, value: Value) -> list[Dim] | None:
        """The elements of an integer tensor as dims, flat, if they don't depend on data."""
        self.shapes.facts = self.context.facts
        found = self.shapes.of(value)
        return None if found is None else list(found.reshape(-1))

    def partly_known(self, value: Value) -> list[Dim | None] | None:
        """As ``known``, with None for elements that depend on data; None if all do."""
        self.shapes.facts = self.context.facts
        found = self.shapes.partial(value)
        return None if found is None else list(found.reshape(-1))

    def constant(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The array behind a value that is a constant op, or None."""
        op = value.op
        return op.attrs["value"].array if op is not None and op.short == "constant" else None

    def promote(self, *values: Value) -> tuple[Value, ...]:
        """Cast to the widest dtype by kind then size (bool < integer < float)."""
        rank = {"b": 0, "u": 1, "i": 1, "f": 2}
        best = max((v.type.dtype for v in values), key=lambda d: (rank[d.kind], d.size))
        return tuple(self.cast(v, best) for v in values)

    def finish(
        self,
        outputs: Sequence[Value],
        output_names: Sequence[str],
        constraints: Sequence[Constraint] = (),
        name: str = "model",
        **facts: Any,
    ) -> Module:
        """Return the outputs; the function is complete. ``facts`` go into the Module."""
        self.builder.op("func.return", outputs, result_types=())
        main = Function(
            "main",
            self.block,
            [v.name for v in self.block.args],
            list(output_names),
            self.context.symbols,
            [*constraints, *self.context.constraints],
        )
        if self.discarded:
            prune(main)
        if self.composed:
            facts["source"] = {**facts.get("source", {}), COMPOSED: sorted(self.composed)}
        return Module(main, name, **facts)


