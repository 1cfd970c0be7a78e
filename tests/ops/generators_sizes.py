"""Calls of the operators whose sizes depend on data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cuvil.sym.expr import symbol
from tests.ops.values import Case, Rng, case

_LENGTHS = (0, 1, 7, 8, 9, 64, 1000)


def _sizes(rng: Rng) -> Iterator[Case]:
    """Names are used once: the calls of a batch share their symbols."""
    for number, count in enumerate((1, 2, 5, 1)):
        names = tuple(symbol(f"late{number}_{i}") for i in range(count))
        values = rng.integers(0, 1 << 31, count)
        yield case(values.reshape(()) if number == 3 else values, binds=names)


def _positions(rng: Rng) -> Iterator[Case]:
    for length in _LENGTHS:
        for share in (0.0, 0.02, 0.5, 1.0):
            mask = rng.random(length) < share
            for size in {0, int(mask.sum()) // 2, int(mask.sum()), length}:
                yield case(mask, size=size)


GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "sizes": _sizes,
    "positions": _positions,
}
