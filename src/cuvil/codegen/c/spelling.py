"""Expressions in C: what the shared writers spell for C++, said without templates and overloads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cuvil.analysis.index_map import Index
from cuvil.codegen.cxx_expr import cxx
from cuvil.codegen.scalar import Point, Special, Writer
from cuvil.ir.core import Op
from cuvil.ir.types import BF16, F16, F32, I32, DType
from cuvil.passes.matching import defined_by
from cuvil.sym.expr import Dim

_CAST = re.compile(r"(?<!\w)(u?int(?:8|16|32|64)_t|float|double|bool|ptrdiff_t)\(")
_FLOAT_CAST = re.compile(r"cuvil::cast_float<(\w+)>\(")
_BITS = re.compile(r"__builtin_bit_cast\((\w+), ")
_CALL = re.compile(r"cuvil::(\w+)\(")
_PAIR = re.compile(r"^cuvil::(\w+)\((.+), (.+)\)$")
_NUMBER = re.compile(r"^\(?-?[0-9][0-9.e+-]*f?\)?$")
_COMMON = frozenset({
    "bf16_to_f32", "f32_to_bf16", "f16_to_f32", "f32_to_f16", "floordiv", "mod", "maximum",
    "minimum", "reflect_index", "edge_index", "wrap_index", "checked_index", "index_from_start",
})  # fmt: skip
_OF_TYPE: Mapping[str, str] = {
    "int8_t": "i8", "int16_t": "i16", "int32_t": "i32", "int64_t": "i64", "uint8_t": "u8",
    "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "float": "f32", "double": "f64",
    "bool": "bool",
}  # fmt: skip


class CWriter(Writer):
    """A writer of C: sizes and indices are ptrdiff_t, functions carry their type in their name."""

    index_type = "ptrdiff_t"

    def spell(self, text: str, types: Sequence[DType]) -> str:
        """The text of an operator on operands of ``types`` in C."""
        dtype = types[0] if types else F32
        source = f"u{8 * dtype.size}" if dtype.is_narrow or dtype in (F16, BF16) else dtype.name
        text = _BITS.sub(lambda m: f"cuvil_bitcast_{source}_{_OF_TYPE[m.group(1)]}(", text)
        return c_text(text, F32 if dtype in (F16, BF16) else dtype)

    def text(self, dim: Dim) -> str:
        return c_text(super().text(dim))

    def special(self, op: Op) -> Special | None:
        """A rounded number as an integer is one function: machines have that in few steps."""
        rounded = defined_by(op.operands[0], "round") if op.short == "cast" else None
        if rounded is not None and (rounded.type.dtype, op.type.dtype) == (F32, I32):
            return _nearest
        return super().special(op)


def _nearest(point: Point, op: Op, index: Index) -> str:
    (rounded,) = op.operands
    assert rounded.op is not None
    x = point.element(rounded.op.operands[0], index)
    return point.set("int32_t", f"cuvil_nearest_f32_i32({x})")


def c_dim(dim: Dim, names: Mapping[str, str]) -> str:
    """An expression over symbols in C."""
    return c_text(cxx(dim, names))


def c_text(text: str, dtype: DType = F32) -> str:
    """C++ as the writers spell it, in C; ``dtype`` is that of an operator's operands."""
    text = _simple(text, dtype)
    text = _FLOAT_CAST.sub(lambda m: f"cuvil_cast_{dtype.name}_{_OF_TYPE[m.group(1)]}(", text)
    text = _CALL.sub(lambda m: _function(m.group(1), dtype), text)
    return _CAST.sub(r"(\1)(", text)


def _function(name: str, dtype: DType) -> str:
    return f"cuvil_{name}(" if name in _COMMON else f"cuvil_{name}_{dtype.name}("


def _simple(text: str, dtype: DType) -> str:
    """Divisions, and extremes with a number, without a function; NaN stays NaN."""
    found = _PAIR.match(text)
    if found is None or not dtype.is_float:
        return text
    name, a, b = found.groups()
    if name == "div":
        return f"({a} / {b})"
    if name in ("max", "min"):
        sign = "<" if name == "max" else ">"
        for value, bound in ((a, b), (b, a)):
            if _NUMBER.match(bound) and not _NUMBER.match(value):
                return f"({value} {sign} {bound} ? {bound} : {value})"
    return text
