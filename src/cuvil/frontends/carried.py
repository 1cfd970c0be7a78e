"""Values that go from trip to trip of a loop, some of them with another size each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value
from cuvil.ir.keeping import KEEP, KEPT, PLACE, TOKEN
from cuvil.ir.types import I64, TensorType
from cuvil.sym.expr import Dim, add, mul, symbols_of

Axes = Mapping[int, Sequence[int]]  # by the number of a carried value
_WHAT = "the size of a value that goes from trip to trip"


@dataclass(frozen=True)
class _Aside:
    """A value that is put aside: its sizes along ``axes`` are carried with its token."""

    type: TensorType
    axes: tuple[int, ...]
    place: int

    def sizes(self, shape: Sequence[Dim]) -> list[Dim]:
        return [shape[axis] for axis in self.axes]

    def of(self, sizes: Sequence[Dim]) -> TensorType:
        shape = list(self.type.shape)
        for axis, size in zip(self.axes, sizes, strict=True):
            shape[axis] = size
        return self.type.with_shape(tuple(shape))

    def put(self, e: Emitter, value: Value, side: Value) -> list[Value]:
        op = e.builder.op(KEEP, [value, side], {PLACE: self.place}, result_types=[TOKEN])
        return [op.result, e.dims(self.sizes(value.type.shape))]

    def get(self, e: Emitter, token: Value, sizes: Sequence[Dim]) -> Value:
        types = [self.of(sizes)]
        return e.builder.op(KEPT, [token], {PLACE: self.place}, result_types=types).result


class Carried:
    """How one loop carries its values: ``inits`` are what the loop itself begins with, of
    ``types``. Values that ``axes`` names may have another size along those in each trip."""

    def __init__(self, e: Emitter, values: Sequence[Value], axes: Axes) -> None:
        self.e = e
        self._values = list(values)
        self._aside: list[_Aside | None] = []
        self._open: list[list[Dim]] = []
        self._grown: list[list[Dim | None]] = []
        self.inits: list[Value] = []
        for i, value in enumerate(values):
            chosen = tuple(sorted(axes.get(i, ())))
            aside = _Aside(value.type, chosen, e.new_place()) if chosen else None
            self._aside.append(aside)
            first = [value] if aside is None else aside.put(e, value, e.scalar(0, I64))
            self.inits += first
        self.types = [v.type for v in self.inits]

    def entered(self, args: Sequence[Value]) -> list[Value]:
        """In the region: the values that its arguments stand for."""
        rest, values = iter(args), []
        self._tokens: list[Value | None] = []
        self._open = []
        for i, aside in enumerate(self._aside):
            first = next(rest)
            sizes: list[Dim] = []
            if aside is not None:
                names = [f"carried_{i}_{axis}" for axis in aside.axes]
                sizes = self.e.bind(next(rest), names, _WHAT)
            self._tokens.append(None if aside is None else first)
            self._open.append(sizes)
            values.append(first if aside is None else aside.get(self.e, first, sizes))
        return values

    def left(self, values: Sequence[Value]) -> list[Value]:
        """At the region's end: what it yields for the values of the next trip."""
        yields: list[Value] = []
        self._grown = []
        inside = {str(d) for sizes in self._open for d in sizes}
        for aside, token, sizes, value in zip(
            self._aside, self._tokens, self._open, values, strict=True
        ):
            grown: list[Dim | None] = []
            if aside is None or token is None:
                yields.append(value)
            else:
                side = self.e.op("sub", self.e.scalar(1, I64), token)
                yields += aside.put(self.e, value, side)
                after = aside.sizes(value.type.shape)
                more = [self.e.simplify(add(b, mul(a, -1))) for a, b in zip(sizes, after)]
                grown = [d if not symbols_of(d) & inside else None for d in more]
            self._grown.append(grown)
        return yields

    def after(self, found: Sequence[Value], trips: Dim | None, late: set[str]) -> list[Value]:
        """After the loop: the values. Sizes that grow by the same in each trip are known where the
        number of ``trips`` is; ``late`` are the symbols that only the region has."""
        rest, values = iter(found), []
        for i, (aside, grown) in enumerate(zip(self._aside, self._grown, strict=True)):
            first = next(rest)
            if aside is None:
                values.append(first)
                continue
            known: list[Dim | None] = [None] * len(grown)
            if trips is not None:
                begin = aside.sizes(self._values[i].type.shape)
                known = [
                    None if d is None or symbols_of(d) & late
                    else self.e.simplify(add(b, mul(trips, d)))
                    for b, d in zip(begin, grown, strict=True)
                ]  # fmt: skip
            sizes = self._told(next(rest), known, [f"carried_{i}_{a}" for a in aside.axes])
            values.append(aside.get(self.e, first, sizes))
        return values

    def _told(self, sizes: Value, known: list[Dim | None], names: list[str]) -> list[Dim]:
        if any(d is None for d in known):
            bound = self.e.bind(sizes, names, _WHAT)
            return [b if d is None else d for b, d in zip(bound, known, strict=True)]
        return [d for d in known if d is not None]
