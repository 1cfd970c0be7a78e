"""Shapes and dims as text, the way a command line gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cuvil.api.request import dtype_name
from cuvil.errors import InputError, InvalidModelError
from cuvil.sym.dim import Dim
from cuvil.sym.expr import symbols_of
from cuvil.sym.parse import parse_dim

_SHAPE_HINT = "write NAME:1x3x224x224, or NAME:i64[batch,seq] to name dtype and dims"
_DYNAMIC_HINT = "write INPUT:AXIS=NAME, or INPUT:AXIS=NAME:MIN..MAX"
_VARIANTS_HINT = "write NAME=1,4,16..63,64.. or auto"
_SPAN = re.compile(r"(?P<low>\d+)((?P<dots>\.\.)(?P<high>\d*))?", re.ASCII)
_TYPED = re.compile(r"(?P<dtype>[A-Za-z]\w*)\[(?P<dims>.*)\]")
_DYNAMIC = re.compile(
    r"(?P<axis>-?\d+)=(?P<name>[A-Za-z_]\w*)(:(?P<low>\d*)\.\.(?P<high>\d*))?", re.ASCII
)

Spec = tuple[str, str | None, tuple[Any, ...]]


def parse_shape(text: str) -> Spec:
    """``"x:1x3x224x224"`` or ``"ids:i64[batch,seq]"`` to (name, dtype name, dims).

    The dtype is None unless named. Raises InputError on anything else.
    """
    name, colon, rest = text.rpartition(":")
    if not colon or not name:
        raise InputError(f"cannot read the shape {text!r}", hint=_SHAPE_HINT)
    typed = _TYPED.fullmatch(rest)
    dtype, dims = (None, rest) if typed is None else (typed["dtype"], typed["dims"])
    commas = typed is not None or "," in dims
    items = [part.strip() for part in dims.split("," if commas else "x")] if dims.strip() else []
    found = None if dtype is None else dtype_name(dtype)
    return name, found, tuple(_dim(part, text, commas) for part in items)


def _dim(part: str, text: str, expressions: bool) -> int | str:
    """A number, a name or, where dims stand between commas, an expression like ``2 * seq``."""
    if part.isascii() and part.isdigit():
        return int(part)
    if part.isidentifier() or (expressions and _is_expression(part)):
        return part
    raise InputError(f"cannot read {part!r} in the shape {text!r}", hint=_SHAPE_HINT)


def _is_expression(part: str) -> bool:
    try:
        return bool(symbols_of(parse_dim(part)))
    except InvalidModelError:
        return False


def parse_dynamic(texts: Iterable[str]) -> dict[str, dict[int, Dim]] | None:
    """``["x:0=batch:1..64"]`` to the ``dynamic_dims`` of :func:`cuvil.compile`; None for none.

    Both ends are included and either may be left out. Raises InputError on anything else.
    """
    table: dict[str, dict[int, Dim]] = {}
    for text in texts:
        match = re.fullmatch(rf"(?P<input>.+?):{_DYNAMIC.pattern}", text, re.ASCII)
        if match is None:
            raise InputError(f"cannot read the dynamic dim {text!r}", hint=_DYNAMIC_HINT)
        low, high = int(match["low"] or 0), int(match["high"]) if match["high"] else None
        try:
            dim = Dim(match["name"], low, high)
        except ValueError as error:
            raise InputError(f"cannot use the dynamic dim {text!r}: {error}") from None
        table.setdefault(match["input"], {})[int(match["axis"])] = dim
    return table or None


def parse_variants(texts: Iterable[str]) -> str | dict[str, list[Any]]:
    """``["batch=1,4,16..63,64.."]`` or ``["auto"]`` to the option ``variants``; both ends of a
    range are included. Raises InputError on anything else."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        if text == "auto":
            return text
        name, equals, values = text.partition("=")
        parts = [_SPAN.fullmatch(part.strip()) for part in values.split(",")]
        if not equals or not name.strip().isidentifier() or not all(parts):
            raise InputError(f"cannot read the variants {text!r}", hint=_VARIANTS_HINT)
        spans = [(int(part["low"]), part["dots"], part["high"]) for part in filter(None, parts)]
        found.setdefault(name.strip(), []).extend(
            [low, int(high) + 1 if high else None] if dots else low for low, dots, high in spans
        )
    return found


def parse_sizes(text: str) -> dict[str, int]:
    """``"batch=8,seq=128"`` to sizes by symbol. Raises InputError on anything else."""
    sizes = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        if not name.strip().isidentifier() or not value.strip().isdigit():
            raise InputError(f"cannot read the sizes {text!r}", hint="write batch=8,seq=128")
        sizes[name.strip()] = int(value)
    return sizes
