"""Nodes whose operator was registered with cuvil.register_op: ``domain::OpType``."""

from __future__ import annotations

from typing import Any

from cuvil.frontends.onnx.node import Node, Refused
from cuvil.frontends.registered import attribute, emit
from cuvil.ir.core import Value
from cuvil.ops.custom import CUSTOM, CustomOp


def registered(domain: str, op_type: str) -> CustomOp | None:
    """The operator, if somebody registered it; one of the default domain has no ``::``."""
    return CUSTOM.find(f"{domain}::{op_type}" if domain else op_type)


def translate(op: CustomOp, node: Node) -> list[Value]:
    """The results of one node."""
    operands: list[Value] = []
    for index in range(len(node.inputs)):
        value = node.optional(index)
        if value is None:
            raise Refused(f"its input {index} is left out, which registered operators can't tell")
        operands.append(value)
    unknown = [name for name in node.attrs if name not in op.attrs]
    if unknown:
        raise Refused(
            f"its attribute {unknown[0]!r} is not among those it was registered with",
            "name its kind in register_op(attrs=...)",
        )
    attrs: dict[str, Any] = {k: attribute(k, op.attrs[k], v) for k, v in node.attrs.items()}
    return emit(node.e, op, operands, attrs)
