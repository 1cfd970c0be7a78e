"""Attributes of a node as Python values, with a function's references filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import AttributeProto, NodeProto

from cuvil.errors import InvalidModelError

Raw = Mapping[str, AttributeProto]


def node_attributes(node: NodeProto, bound: Raw) -> dict[str, AttributeProto]:
    """Attributes by name; ``bound`` are those of the function call the node is in."""
    table: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            table[attribute.name] = attribute
        elif attribute.ref_attr_name in bound:
            table[attribute.name] = bound[attribute.ref_attr_name]
    return table


def python_value(attribute: AttributeProto) -> Any:
    """int, float, str, a list of them, or the proto of a tensor, graph or type."""
    kind = attribute.type
    if kind == AttributeProto.INT:
        return int(attribute.i)
    if kind == AttributeProto.FLOAT:
        return float(attribute.f)
    if kind == AttributeProto.STRING:
        return _text(attribute.s)
    if kind == AttributeProto.INTS:
        return list(attribute.ints)
    if kind == AttributeProto.FLOATS:
        return list(attribute.floats)
    if kind == AttributeProto.STRINGS:
        try:
            return [x.decode() for x in attribute.strings]
        except UnicodeDecodeError:
            return [_text(x) for x in attribute.strings]
    if kind == AttributeProto.TENSOR:
        return attribute.t
    if kind == AttributeProto.SPARSE_TENSOR:
        return attribute.sparse_tensor
    if kind == AttributeProto.GRAPH:
        return attribute.g
    if kind == AttributeProto.UNDEFINED:
        return _untyped(attribute)
    return attribute


def _untyped(attribute: AttributeProto) -> Any:
    """Models of IR version 1 leave the attribute's type out: the field that is set tells."""
    fields = {
        "i": AttributeProto.INT,
        "f": AttributeProto.FLOAT,
        "s": AttributeProto.STRING,
        "t": AttributeProto.TENSOR,
        "g": AttributeProto.GRAPH,
    }
    kind = AttributeProto.FLOATS if attribute.floats else AttributeProto.INTS
    kind = next((code for name, code in fields.items() if attribute.HasField(name)), kind)
    typed = AttributeProto()
    typed.CopyFrom(attribute)
    typed.type = kind
    return python_value(typed)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidModelError(f"an attribute is not UTF-8 text: {data[:40]!r}") from None
