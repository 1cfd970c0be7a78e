"""Operators of torch.library that were registered with cuvil.register_op under the same name."""

from __future__ import annotations

from typing import Any

from cuvil.errors import CuvilError
from cuvil.frontends.registered import attribute, emit
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import TensorType
from cuvil.ops.custom import CUSTOM, CustomOp


def registered_rule(target: Any) -> Rule | None:
    """The rule of ``ns::name``; None if nobody registered it."""
    schema = getattr(target, "_schema", None)
    registered = CUSTOM.find(str(schema.name)) if schema is not None else None
    if registered is None:
        return None
    return lambda call: _translate(registered, call, bool(schema.is_mutable))


def _translate(registered: CustomOp, call: Call, mutates: bool) -> list[Value]:
    if mutates:
        raise Refused("it writes to its arguments; return new tensors instead")
    operands: list[Value] = []
    attrs: dict[str, Any] = {}
    for name, item in call.args.items():
        kind = registered.attrs.get(name)
        if kind is not None:
            attrs[name] = attribute(name, kind, item)
        elif isinstance(item, Value):
            operands.append(item)
        elif item is not None:
            raise Refused(
                f"its argument {name} is no tensor: name its kind in register_op(attrs=...)"
            )
    types = None
    if not registered.has_shape:  # torch's own shape rule (register_fake) has said it
        types = [TensorType(call.shape_of(i), call.dtype_of(i)) for i in range(len(call.metas))]
    try:
        return emit(call.e, registered, operands, attrs, types)
    except CuvilError as error:
        raise Refused(error.message) from error
