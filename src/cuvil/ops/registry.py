"""The table of all operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from cuvil.ops import (
    contraction,
    convolution,
    elementwise,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    resize,
    special,
    structure,
)
from cuvil.ops.base import OpDef

_FAMILIES = (
    elementwise,
    special,
    movement,
    reduction,
    normalization,
    contraction,
    convolution,
    pooling,
    resize,
    recurrent,
    structure,
)


@lru_cache(maxsize=1)
def registry() -> Mapping[str, OpDef]:
    """Every operator by full name, such as ``cuvil.add``."""
    table: dict[str, OpDef] = {}
    for family in _FAMILIES:
        for definition in family.DEFS:
            if definition.name in table:
                raise ValueError(f"operator {definition.name} is defined twice")
            table[definition.name] = definition
    return MappingProxyType(table)
