"""The table of all operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from cuvil.ops import (
    blocks,
    cast,
    contraction,
    convolution,
    coupling,
    elementwise,
    gamma,
    integers,
    ldl,
    linalg,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    region,
    resize,
    rounded,
    scans,
    selection,
    sizes,
    special,
    structure,
    trees,
)
from cuvil.ops.base import OpDef
from cuvil.ops.custom import CUSTOM, CustomTable

_FAMILIES = (
    cast,
    elementwise,
    rounded,
    special,
    gamma,
    integers,
    movement,
    reduction,
    normalization,
    contraction,
    blocks,
    convolution,
    coupling,
    pooling,
    resize,
    recurrent,
    structure,
    scans,
    linalg,
    ldl,
    trees,
    sizes,
    selection,
    region,
)


class Registry(Mapping[str, OpDef]):
    """The house's operators, then those that users registered."""

    def __init__(self, house: Mapping[str, OpDef], custom: CustomTable) -> None:
        self.house = house
        self.custom = custom

    def __getitem__(self, name: str) -> OpDef:
        found = self.house.get(name)
        if found is None:
            registered = self.custom.of(name)
            found = registered.definition if registered is not None else None
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self.house
        yield from (op.definition.name for op in self.custom if op.definition is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=1)
def registry() -> Registry:
    """Every operator by full name, such as ``cuvil.add``."""
    table: dict[str, OpDef] = {}
    for family in _FAMILIES:
        for definition in family.DEFS:
            if definition.name in table:
                raise ValueError(f"operator {definition.name} is defined twice")
            table[definition.name] = definition
    return Registry(MappingProxyType(table), CUSTOM)
