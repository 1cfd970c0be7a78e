"""How expressions are written; ``sym.parse`` reads it. Equal expressions have equal text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

OPERATORS: Mapping[str, str] = {"floordiv": "//", "mod": "%"}


def function_text(kind: str, a: str, b: str) -> str:
    """A function of two expressions that are written as ``a`` and ``b``."""
    sign = OPERATORS.get(kind)
    return f"{_operand(a)} {sign} {_operand(b)}" if sign else f"{kind}({a}, {b})"


def _operand(text: str) -> str:
    return text if text.replace("_", "").isalnum() else f"({text})"


def product_text(factors: Iterable[tuple[str, int]]) -> str:
    """Factors with their powers; empty for none."""
    return " * ".join(text for text, power in factors for _ in range(power))


def sum_text(terms: Iterable[tuple[str, int]]) -> str:
    """Products with their coefficients; the empty product is 1."""
    out = ""
    for body, coefficient in terms:
        size = abs(coefficient)
        text = body if body and size == 1 else f"{size} * {body}" if body else str(size)
        if not out:
            out = text if coefficient > 0 else f"-{text}"
        else:
            out += f" + {text}" if coefficient > 0 else f" - {text}"
    return out
