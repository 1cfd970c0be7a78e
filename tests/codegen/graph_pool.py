"""A random graph under construction.

Values are kept in a pool; each step picks one of the makers (random_graphs.py) and operands from
the pool, so that values are reused and diamonds arise by themselves. Ops that jump (comparisons,
rounding, positions of a maximum) only see values that every correct program computes to the same
bit; those are tracked as ``exact``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from cuvil.errors import CuvilError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Value
from cuvil.ir.types import F16, F32, I32, I64, DType, Shape, TensorType
from cuvil.sym.expr import Dim, evaluate, symbol
from tests.ops.values import Array, Rng

MAX_ELEMENTS = 20_000
_LARGEST = {"n": 19, "m": 4}
_STATIC_SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 33, 65, 130)


Made: TypeAlias = "list[tuple[Value, bool]] | None"
Maker: TypeAlias = "Callable[[Graph], Made]"


class Graph:
    """One function under construction, and what is known of its values."""

    def __init__(self, seed: int, makers: Sequence[Maker], steps: int = 14) -> None:
        self.makers = makers
        self.rng = np.random.default_rng(seed)
        self.e = Emitter()
        self.pool: list[Value] = []
        self.exact: set[int] = set()
        self._inputs()
        for _ in range(steps + int(self.rng.integers(8))):
            self._step()

    def _inputs(self) -> None:
        names = ("n", "m") if self.rng.random() < 0.7 else ()
        self.e.context.symbols.update(dict.fromkeys(names, (0, None)))
        symbols = [symbol(n) for n in names]
        for number in range(int(self.rng.integers(1, 4)) + len(names) // 2):
            rank = int(self.rng.integers(0 if number else 1, 5))
            shape: Shape = tuple(self._size(symbols) for _ in range(rank))
            if number == 0 and names:
                shape = (symbols[0], symbols[1], *shape[:2])
            while self._elements(shape) > MAX_ELEMENTS // 4:
                shape = shape[:-1]
            dtype = self._choose([F32, F32, F32, F32, I64, I32, F16])
            self._input(TensorType(shape, dtype))

    def _input(self, type: TensorType) -> Value:
        value = self.e.input(f"x{len(self.e.block.args)}", type)
        return self._keep(value, exact=True)

    def _size(self, symbols: list[Dim]) -> Dim:
        if symbols and self.rng.random() < 0.4:
            return self._choose(symbols)
        return int(self._choose(list(_STATIC_SIZES)))

    def _choose(self, items: list[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def _elements(self, shape: Shape) -> int:
        total = 1
        for d in shape:
            total *= max(1, evaluate(d, _LARGEST))
        return total

    def _keep(self, value: Value, exact: bool) -> Value:
        self.pool.append(value)
        if exact:
            self.exact.add(id(value))
        return value

    def _is_exact(self, *values: Value) -> bool:
        return all(id(v) in self.exact for v in values)

    def pick(self, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value of the pool, later ones more often."""
        found = [v for v in self.pool if test(v)]
        if not found:
            return None
        return found[-1 - int(len(found) * self.rng.random() ** 2)]

    def _step(self) -> None:
        for _ in range(20):
            maker = self._choose(list(self.makers))
            try:
                made = maker(self)
            except CuvilError:
                continue
            if made is None:
                continue
            for value, exact in made:
                if value.type.rank > 6 or self._elements(value.type.shape) > MAX_ELEMENTS:
                    return
                self._keep(value, exact)
            return

    def outputs(self) -> list[Value]:
        """Up to four values, repeats, inputs, constants and views among them."""
        count = int(self.rng.integers(1, 4))
        chosen = [v for v in (self.pick() for _ in range(count)) if v is not None]
        unused = [v for v in self.pool if not v.uses and v not in chosen]
        chosen += unused[-2:]
        if self.rng.random() < 0.2:
            chosen.append(chosen[0])
        return chosen


def array_of(rng: Rng, shape: list[int], dtype: DType) -> Array:
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        return np.asarray(rng.integers(-9, 10, shape)).astype(dtype.numpy)
    return np.asarray(rng.standard_normal(shape)).astype(dtype.numpy)
