"""Attributes that speak of dimensions: substitution, and the symbols in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cuvil.sym.expr import Dim, Expr, substitute, symbols_of


def substitute_attr(value: Any, table: Mapping[str, Dim]) -> Any:
    """The attribute with symbols replaced, also inside nested tuples and lists."""
    if isinstance(value, Expr):
        return substitute(value, table)
    if isinstance(value, tuple):
        return tuple(substitute_attr(v, table) for v in value)
    if isinstance(value, list):
        return [substitute_attr(v, table) for v in value]
    return value


def substitute_attrs(attrs: Mapping[str, Any], table: Mapping[str, Dim]) -> dict[str, Any]:
    """All attributes with symbols replaced by expressions or integers."""
    return {k: substitute_attr(v, table) for k, v in attrs.items()}


def attr_symbols(value: Any) -> frozenset[str]:
    """Names of the symbols in one attribute."""
    if isinstance(value, Expr):
        return symbols_of(value)
    if isinstance(value, (tuple, list)):
        return frozenset().union(*map(attr_symbols, value))
    return frozenset()
