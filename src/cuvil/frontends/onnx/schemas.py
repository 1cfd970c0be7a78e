"""What ONNX's own schemas say of a node: the operator's definition, and its attributes."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from onnx import defs

from cuvil.errors import InvalidModelError

STANDARD = ("", "ai.onnx.ml")
# Exporters leave these where the operator no longer has them; they say nothing of its result.
LEFT_OVER = frozenset(("consumed_inputs", "is_test"))
_PRIVATE = "__"  # names that ONNX's checker passes over


def schema_of(op: str, version: int, domain: str = "") -> Any:
    """The operator's schema at a version of its domain, None where ONNX has none."""
    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


@lru_cache(maxsize=4096)
def attributes_of(op: str, version: int, domain: str) -> frozenset[str] | None:
    """The names of the attributes that an operator has, None where that is not known."""
    schema = schema_of(op, version, domain) if domain in STANDARD else None
    return None if schema is None else frozenset(schema.attributes)


def check_attributes(names: Collection[str], op: str, version: int, domain: str) -> None:
    """Raise InvalidModelError for an attribute that a standard operator does not have."""
    if not names:
        return  # ONNX's table of schemas takes milliseconds to come up
    known = attributes_of(op, version, domain)
    if known is None or known.issuperset(names):
        return
    for name in names:
        if name in known or name in LEFT_OVER or name.startswith(_PRIVATE):
            continue
        listed = ", ".join(sorted(known)) or "none"
        raise InvalidModelError(
            f"{op} of opset {version} has no attribute {name!r}",
            hint=f"it has: {listed}; correct the name, or declare the opset that it is from",
        )
