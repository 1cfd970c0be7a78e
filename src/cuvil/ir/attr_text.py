"""Dimensions, types and attributes as MLIR text; the parser reads exactly this."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.core import Weight
from cuvil.ir.types import DType, TensorType
from cuvil.sym.expr import Atom, Dim, Expr

INLINE_ELEMENTS = 16
DIGEST_CHARACTERS = 16
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


def dim_text(dim: Dim) -> str:
    """Like ``str``, with floor division and remainder written as functions: ``//`` would start
    a comment in MLIR and ``%`` a value name."""
    text = str(dim)
    if isinstance(dim, int) or ("%" not in text and "//" not in text):
        return text
    out = ""
    for monomial, coefficient in dim.terms:
        factors = [_atom_text(atom) for atom, power in monomial for _ in range(power)]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = (" - " if coefficient < 0 else " + ") if out else ("-" if coefficient < 0 else "")
        out += sign + " * ".join(factors)
    return out


def _atom_text(atom: Atom) -> str:
    if atom.kind == "symbol":
        return atom.name
    return f"{atom.kind}({', '.join(dim_text(a) for a in atom.args)})"


def type_text(type: TensorType) -> str:
    """``!cuvil.tensor<[N, 768] x f32>``"""
    return f"!cuvil.tensor<[{', '.join(map(dim_text, type.shape))}] x {type.dtype.name}>"


def string_text(text: str) -> str:
    """A quoted MLIR string; everything but printable ASCII as hexadecimal UTF-8 bytes."""
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    data = text.encode("utf-8", "surrogatepass")
    return '"' + "".join(_escape(b) for b in data) + '"'


def _escape(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"


def float_text(value: float) -> str:
    """The shortest decimal that reads back as the same f64; hexadecimal bits for NaN and Inf."""
    text = repr(value)
    if text[-1] in "nf":
        return f"0x{np.float64(value).view(np.uint64):016X}"
    if "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text


def elements_text(array: np.ndarray[Any, Any]) -> str:
    """All elements in row-major order, exactly."""
    flat = array.reshape(-1)
    if flat.dtype.kind in "iub":
        return ", ".join(str(x).lower() for x in flat.tolist())
    bits = flat.view(f"u{flat.dtype.itemsize}")
    values = flat.astype(np.float64)
    # A byte that holds fewer bits may have others set: only its own value has a decimal.
    plain = np.isfinite(values) & (values.astype(flat.dtype).view(bits.dtype) == bits)
    return ", ".join(
        float_text(float(v)) if p else f"0x{int(b):X}"
        for v, b, p in zip(values, bits, plain, strict=True)
    )


def weight_text(weight: Weight) -> str:
    """Small constants whole, larger ones by name, digest and type."""
    type = weight.type
    dims = ", ".join(map(str, type.shape))
    form = f"[{dims}] x {type.dtype.name}"
    if weight.array.size <= INLINE_ELEMENTS:
        elements = elements_text(weight.array)
        return f"#cuvil.dense<{string_text(weight.name)}, {form}, [{elements}]>"
    digest = weight.digest[:DIGEST_CHARACTERS]
    return f'#cuvil.weight<{string_text(weight.name)}, "{digest}", {form}>'


def attr_text(value: Any) -> str:
    """One attribute. Raises InvalidModelError for a Python object that has no text."""
    form = _FORMS.get(type(value))
    if form is not None:
        return form(value)
    if isinstance(value, np.generic):
        return attr_text(value.item())
    raise InvalidModelError(f"an attribute of type {type(value).__name__} has no text: {value!r}")


def _int_text(value: int) -> str:
    if not -(1 << 63) <= value < 1 << 63:
        raise InvalidModelError(f"an integer attribute must fit 64 bits, not {value}")
    return f"{value} : i64"


def _sequence_text(value: tuple[Any, ...] | list[Any]) -> str:
    kinds = set(map(type, value))
    if kinds == {int}:
        return f"array<i64: {', '.join(map(str, value))}>"
    if kinds and kinds <= {int, Expr}:
        return f"#cuvil.dims<[{', '.join(map(dim_text, value))}]>"
    return f"[{', '.join(map(attr_text, value))}]"


def dict_text(table: Mapping[str, Any]) -> str:
    """``{key = attribute}`` with the keys sorted, so that equal tables give equal text."""
    items = []
    for key in sorted(table):
        plain = (key.isidentifier() and key.isascii()) or _BARE_KEY.fullmatch(key)
        try:
            items.append(f"{key if plain else string_text(key)} = {attr_text(table[key])}")
        except InvalidModelError as error:
            error.where = f"{key}.{error.where}" if error.where else key
            raise
    return "{" + ", ".join(items) + "}"


_FORMS: Mapping[type, Callable[[Any], str]] = {
    bool: lambda v: "true" if v else "false",
    int: _int_text,
    float: lambda v: f"{float_text(v)} : f64",
    str: string_text,
    type(None): lambda v: "unit",
    tuple: _sequence_text,
    list: _sequence_text,
    dict: dict_text,
    Expr: lambda v: f"#cuvil.dim<{dim_text(v)}>",
    DType: lambda v: f"#cuvil.dtype<{v.name}>",
    TensorType: type_text,
    Weight: weight_text,
}
