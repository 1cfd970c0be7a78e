"""Operators that ONNX itself defines by a function of simpler ones."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, helper

from cuvil.frontends.onnx.load import opset_table
from cuvil.frontends.onnx.node import Item, Node, Refused
from cuvil.frontends.onnx.schemas import schema_of
from cuvil.frontends.onnx.types import code_of
from cuvil.ir.core import Value

Attributes = Mapping[str, AttributeProto]


def defined_by_function(op: str, version: int) -> bool:
    """Whether ONNX gives a body for this operator of its default domain."""
    schema = schema_of(op, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def expansion(
    node: Node, proto: NodeProto, raw: Attributes
) -> tuple[FunctionProto, dict[str, int], dict[str, AttributeProto]]:
    """The body, the opsets it is written in, and the operator's default attributes.

    Raises Refused where ONNX has a body, but none for these input types.
    """
    schema = schema_of(node.op, node.version) if node.domain == "" else None
    if schema is None:
        raise Refused("there is no translation for it with these inputs")
    if schema.has_function:
        function = schema.function_body
    else:
        filled = NodeProto()
        filled.CopyFrom(proto)
        del filled.attribute[:]
        filled.attribute.extend(raw.values())
        types = [_type(item).SerializeToString() for item in node.inputs]
        body = schema.get_context_dependent_function(filled.SerializeToString(), types)
        function = FunctionProto.FromString(body)
        if not function.node:
            raise Refused("there is no translation for it with these inputs")
    defaults = {
        name: a.default_value for name, a in schema.attributes.items() if a.default_value.name
    }
    opsets = {"": node.version, **opset_table(function.opset_import)}
    if not function.opset_import:
        opsets[""] = node.version
    return function, opsets, defaults


def _type(item: Item | None) -> TypeProto:
    if not isinstance(item, Value):
        return TypeProto()
    shape = [d if isinstance(d, int) else None for d in item.type.shape]
    return helper.make_tensor_type_proto(code_of(item.type.dtype), shape)


def without_inputs(function: FunctionProto, absent: set[str]) -> FunctionProto:
    """The function with the names of inputs the caller left out made empty."""
    if not absent:
        return function
    copy = FunctionProto()
    copy.CopyFrom(function)
    for node in copy.node:
        for i, name in enumerate(node.input):
            if name in absent:
                node.input[i] = ""
    return copy
