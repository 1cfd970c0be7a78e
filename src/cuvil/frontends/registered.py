"""Calls of operators that users registered, as IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.frontends.tensor import Tensor
from cuvil.ir.core import Value
from cuvil.ir.types import BOOL, F32, I64, DType, TensorType
from cuvil.ops.custom import CustomOp

_CONVERT = {"bool": bool, "int": int, "float": float, "str": str}
_MAP_DTYPES: Mapping[str, DType] = {"bool": BOOL, "int": I64, "float": F32}


def attribute(name: str, kind: str, item: Any) -> Any:
    """An attribute's value as its declared kind. Raises InvalidModelError where it isn't one."""
    try:
        if kind in ("ints", "floats"):
            return tuple(_CONVERT[kind[:-1]](i) for i in item)
        return item.decode() if isinstance(item, bytes) else _CONVERT[kind](item)
    except (TypeError, ValueError):
        raise InvalidModelError(f"the attribute {name} is {item!r}, not of kind {kind}") from None


def emit(
    e: Emitter,
    registered: CustomOp,
    operands: Sequence[Value],
    attrs: Mapping[str, Any],
    types: Sequence[TensorType] | None = None,
) -> list[Value]:
    """The results of one call; ``types`` are known from elsewhere where it has no shape rule."""
    if registered.compose is not None:
        e.composed.add(registered.name)
        got = registered.compose(*(Tensor(e, v) for v in operands), **attrs)
        results = list(got) if isinstance(got, (tuple, list)) else [got]
        for item in results:
            if not isinstance(item, Tensor):
                raise InvalidModelError(
                    f"the composition of {registered.name} gave {item!r}, not a tensor",
                    hint="compute with the tensors that it is given",
                )
        return [item.value for item in results]
    definition = registered.definition
    assert definition is not None
    if definition.fusion == "map":
        return [_map(e, registered, operands, attrs)]
    if types is None and not registered.has_shape:
        raise InvalidModelError(
            f"operator {registered.name} has no shape rule",
            hint="register it with shape=, a function from input types to (shape, dtype)",
        )
    return e.builder.op(definition.name, operands, attrs, result_types=types).results


def _map(
    e: Emitter, registered: CustomOp, operands: Sequence[Value], attrs: Mapping[str, Any]
) -> Value:
    """Attributes of a map are operands that are constants: they become literals in its kernel."""
    numbers = []
    for key, kind in registered.attrs.items():
        if key not in attrs:
            raise InvalidModelError(f"operator {registered.name} needs the attribute {key!r}")
        numbers.append(e.scalar(attrs[key], _MAP_DTYPES[kind]))
    shape = e.context.broadcast([v.type.shape for v in operands], registered.name)
    full = [e.broadcast(v, shape) for v in (*operands, *numbers)]
    assert registered.definition is not None
    return e.builder.op(registered.definition.name, full).result
