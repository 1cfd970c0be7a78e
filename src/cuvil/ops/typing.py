"""Type inference through the operator table, as the builder wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuvil.errors import InvalidModelError
from cuvil.ir.core import Location
from cuvil.ir.types import TensorType
from cuvil.ops.base import ShapeContext
from cuvil.ops.registry import registry


class Inference:
    """Infers result types and collects constraints into one context."""

    def __init__(self, context: ShapeContext) -> None:
        self.context = context

    def __call__(
        self,
        name: str,
        operand_types: Sequence[TensorType],
        attrs: Mapping[str, Any],
        where: Location,
    ) -> list[TensorType]:
        definition = registry().get(name)
        if definition is None:
            raise InvalidModelError(f"there is no operator {name}", where=str(where))
        low, high = definition.operands
        count = len(operand_types)
        if count < low or (high is not None and count > high):
            raise InvalidModelError(f"{name} takes {low} to {high} operands, got {count}")
        for key, kind in definition.attrs.items():
            if not kind.endswith("?") and key not in attrs:
                raise InvalidModelError(f"{name} needs the attribute {key!r}")
        for key in attrs:
            if key not in definition.attrs:
                raise InvalidModelError(f"{name} has no attribute {key!r}")
        self.context.origin = str(where)
        return definition.infer(self.context, operand_types, attrs)
