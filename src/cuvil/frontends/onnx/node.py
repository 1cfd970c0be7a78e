"""One node as its translation sees it: typed inputs and attributes, and ways to refuse."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.frontends.onnx.knowledge import MOST_DIMS, Knowledge
from cuvil.frontends.onnx.texts import MapInput, Maps, TextPart, Texts
from cuvil.ir.core import Value
from cuvil.ir.types import I64, DType, Shape, TensorType
from cuvil.sym.expr import Dim, Expr

Array = np.ndarray[Any, Any]


class Refused(Exception):
    """A node that can't be translated: why, and a way round."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def _whole(found: Sequence[Dim | None]) -> list[Dim]:
    return [d for d in found if d is not None]


@dataclass(frozen=True)
class ItemList:
    """An ONNX sequence, taken apart at capture: its items in order."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class LateList:
    """An ONNX sequence whose length is found when the model runs: its tensors, all of one shape,
    along dimension 0 of ``stack``."""

    stack: Value

    @property
    def item(self) -> TensorType:
        """The type of one of its tensors."""
        return self.stack.type.with_shape(self.stack.type.shape[1:])


@dataclass(frozen=True)
class Nothing:
    """An optional without a value."""


Item = Value | ItemList | LateList | Nothing | Texts | Maps | MapInput
Result = Item | Sequence[Item | None]
# None: ONNX's own function of the operator is taken instead.
Handler = Callable[["Node"], Union[Result, None]]
FIXED = "give this input's value at compile time, or export the model with it as a constant"
UNCOUNTED = "join them with ConcatFromSequence, or give the values that decide it at compile time"


class Node:
    """A node under translation. ``version`` is the opset version of its domain."""

    def __init__(
        self,
        op: str,
        domain: str,
        version: int,
        inputs: Sequence[Item | None],
        outputs: Sequence[str],
        attrs: Mapping[str, Any],
        emitter: Emitter,
        knowledge: Knowledge,
        folder: str | None = None,
        words: TextPart | None = None,
    ) -> None:
        self.op = op
        self.domain = domain
        self.version = version
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.e = emitter
        self.knowledge = knowledge
        self.folder = folder
        self.words = words if words is not None else TextPart()

    def __getitem__(self, index: int) -> Value:
        """A tensor input that must be there."""
        item = self.inputs[index] if index < len(self.inputs) else None
        if item is None:
            raise InvalidModelError(f"{self.op} needs an input {index}", where=str(self.e.loc))
        if isinstance(item, (Texts, Maps, MapInput)):
            kind = "strings" if isinstance(item, Texts) else "maps"
            raise Refused(f"{kind} are not supported", f"do the work on {kind} before the model")
        if not isinstance(item, Value):
            listed = isinstance(item, (ItemList, LateList))
            kind = "a sequence" if listed else "an optional without a value"
            raise InvalidModelError(f"{self.op}: input {index} is {kind}", where=str(self.e.loc))
        return item

    def with_inputs(
        self, inputs: Sequence[Item | None], attrs: Mapping[str, Any] | None = None,
        op: str | None = None, version: int | None = None,
    ) -> Node:
        """This node with other inputs (and attributes), to be read by another translation."""
        return Node(
            op or self.op, self.domain, version or self.version, inputs, self.outputs,
            self.attrs if attrs is None else attrs, self.e, self.knowledge, self.folder, self.words,
        )  # fmt: skip

    def optional(self, index: int) -> Value | None:
        """A tensor input, or None where it is left out."""
        return self[index] if self.has(index) else None

    def has(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def sequence(self, index: int) -> tuple[Value, ...]:
        """A sequence input's items."""
        item = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(item, LateList):
            raise Refused(
                "how many tensors a sequence has is found when the model runs",
                "give the number of trips of the loop that makes it at compile time",
            )
        if not isinstance(item, ItemList):
            raise InvalidModelError(
                f"{self.op}: input {index} is no sequence", where=str(self.e.loc)
            )
        return item.items

    def values(self) -> list[Value]:
        """All inputs, as tensors."""
        return [self[i] for i in range(len(self.inputs))]

    def values_from(self, first: int) -> list[Value]:
        """The inputs from ``first`` on, as tensors."""
        return [self[i] for i in range(first, len(self.inputs))]

    def wants(self, index: int) -> bool:
        """Whether the model uses an output."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute."""
        return int(self._attr(name, default, (int,)))

    def number(self, name: str, default: float | None = None) -> float:
        """A float attribute. ONNX keeps them in f32, its defaults too."""
        return float(np.float32(self._attr(name, default, (int, float))))

    def text(self, name: str, default: str | None = None) -> str:
        """A string attribute."""
        return str(self._attr(name, default, (str,)))

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An attribute of integers."""
        return list(self._attr(name, default, (list, tuple)))

    def _attr(self, name: str, default: Any, kinds: tuple[type, ...]) -> Any:
        found = self.attrs.get(name, default)
        if found is None:
            raise InvalidModelError(
                f"{self.op} needs the attribute {name!r}", where=str(self.e.loc)
            )
        if not isinstance(found, kinds):
            raise InvalidModelError(
                f"{self.op}: attribute {name!r} has the wrong type", where=str(self.e.loc)
            )
        return found

    def dims(self, index: int, what: str) -> list[Dim]:
        """The elements of an integer input, which must not depend on data."""
        count = self[index].type.elements
        if isinstance(count, int) and count > MOST_DIMS:
            raise InvalidModelError(f"{self.op}: {what} has {count} elements")
        known = self.knowledge.whole(self[index])
        if known is None:
            raise Refused(f"{what} depends on the data of an input", FIXED)
        return known

    def some(self, index: int, what: str) -> list[Dim | None]:
        """The elements of an integer input, None for those that depend on data."""
        value = self[index]
        count = value.type.elements
        if not isinstance(count, int):
            raise Refused(f"how many elements {what} has is symbolic", "give that dimension a size")
        if count > MOST_DIMS:
            raise InvalidModelError(f"{self.op}: {what} has {count} elements")
        known = self.knowledge.whole(value)
        if known is not None:
            return list(known)
        partial = None if value.type.dtype.is_float else self.e.partly_known(value)
        return partial if partial is not None else [None] * count

    def vector(self, index: int) -> Value:
        """The elements of an integer input as a vector of i64."""
        flat = self.e.reshape(self[index], (self[index].type.elements,))
        return self.e.cast(flat, I64)

    def sizes(self, index: int, what: str) -> list[Dim]:
        """The elements of an integer input that are sizes; those that depend on data are late
        symbols, checked when the model runs."""
        found = self.some(index, what)
        return self.bound(found, self.vector(index), what) if None in found else _whole(found)

    def bound(
        self, found: Sequence[Dim | None], values: Value, what: str, name: str = ""
    ) -> list[Dim]:
        """What isn't known yet in ``found`` as late symbols for the elements of ``values``, an i64
        vector of sizes."""
        missing = [i for i, d in enumerate(found) if d is None]
        if not missing:
            return _whole(found)
        if len(missing) < len(found):
            at = self.e.weight(np.array(missing, np.int64))
            values = self.e.op("gather", values, at, axis=0)
        base = name or re.sub(r"\W", "_", self.op.lower(), flags=re.ASCII)
        names = [f"{base}_{i}" if len(found) > 1 else f"{base}_size" for i in missing]
        made = iter(self.e.bind(values, names, what))
        return [next(made) if d is None else d for d in found]

    def static(self, index: int, what: str) -> list[int]:
        """The elements of an integer input as plain integers."""
        found = self.dims(index, what)
        if any(isinstance(d, Expr) for d in found):
            raise Refused(f"{what} depends on a symbolic dimension", "give that dimension a size")
        return [int(d) for d in found]  # type: ignore[arg-type]

    def constant(self, index: int, what: str) -> Array:
        """The elements of an input that must be constant."""
        found = self.knowledge.array(self[index])
        if found is None:
            raise Refused(f"{what} is not a constant", FIXED)
        return found

    def axis(self, name: str, default: int | None, rank: int) -> int:
        """An axis attribute, counted from the front; ``rank`` itself is out of range."""
        return self.count(self.integer(name, default), rank)

    def count(self, axis: int, rank: int) -> int:
        """A possibly negative axis, counted from the front."""
        if not -rank <= axis < max(rank, 1):
            raise InvalidModelError(
                f"{self.op}: axis {axis} is outside rank {rank}", where=str(self.e.loc)
            )
        return axis % rank if rank else 0

    def size(self, shape: Shape, axis: int, what: str) -> int:
        """A dimension that must be a plain integer."""
        d = shape[axis]
        if isinstance(d, Expr):
            raise Refused(f"{what} is symbolic ({d})", "give that dimension a size")
        return d

    def sized(self, value: Value, axis: int, size: Dim, what: str) -> Value:
        """``value`` with ``size`` along an axis, which a symbolic size there is required to be."""
        shape = value.type.shape
        if axis >= len(shape) or not isinstance(shape[axis], Expr) or not isinstance(size, int):
            return value
        self.e.context.same(shape[axis], size, f"{self.op}: {what}")
        return self.e.broadcast(value, (*shape[:axis], size, *shape[axis + 1 :]))

    def dtype(self) -> DType:
        """The first input's element type."""
        return self[0].type.dtype

    def texts(self, words: Sequence[str], at: Value) -> Texts:
        """The strings at places in a list."""
        numbers = self.e.weight(self.words.numbers(words))
        return Texts(self.e.op("gather", numbers, self.e.cast(at, I64), axis=0))

    def text_position(self, item: Texts, words: Sequence[str], absent: int) -> Value:
        """For each string its place in a list, the first of equals, or ``absent``."""
        table = self.words.table(words, absent)
        number = self.e.with_scalar("min", item.value, len(table) - 1)
        return self.e.op("gather", self.e.weight(table), number, axis=0)

    def map_columns(self, item: MapInput, keys: Sequence[Any], dtype: DType) -> Value:
        """The values of a map's keys as one row, 0 for keys it does not have."""
        made = self.words.columns.setdefault(item.name, [])
        name = f"{item.name}.columns{len(made)}"
        made.append({"input": name, "keys": list(keys)})
        return self.e.input(name, TensorType((1, len(keys)), dtype))
