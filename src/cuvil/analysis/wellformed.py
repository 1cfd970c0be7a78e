"""The verifier with the operators' own type rules: what passes call between steps."""

from __future__ import annotations

from cuvil.ir.core import Module
from cuvil.ir.verifier import Legality, SymbolRanges, verify_module
from cuvil.ops.base import ShapeContext
from cuvil.ops.typing import Inference
from cuvil.sym.constraint import Constraint


def operator_rules(symbols: SymbolRanges, constraints: list[Constraint]) -> Inference:
    """The type rules of all operators over these symbols and constraints."""
    return Inference(ShapeContext(symbols, constraints))


def check_graph(module: Module, legal: Legality | None = None) -> None:
    """Raise InvalidModelError where the graph is malformed, a type differs from what its op's
    rule infers, or ``legal`` gives a reason against an op."""
    verify_module(module, operator_rules, legal)
