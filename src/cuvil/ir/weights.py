"""The constants of a module, by digest: what its text leaves out."""

from __future__ import annotations

from cuvil.ir.core import Module, Weight


def weights_of(module: Module) -> dict[str, Weight]:
    """Every Weight in an attribute of any op, by SHA-256 digest, in order of first use."""
    found: dict[str, Weight] = {}
    for op in module.main.walk():
        for value in op.attrs.values():
            if isinstance(value, Weight):
                found.setdefault(value.digest, value)
    return found
