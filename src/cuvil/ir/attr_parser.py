"""MLIR text to types and attributes: the inverse of ``attr_text``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.core import Weight
from cuvil.ir.scanner import Scanner
from cuvil.ir.types import DTYPES, DType, TensorType
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim
from cuvil.sym.parse import parse_constraint, parse_dim

MAX_DEPTH = 64
MAX_INLINE = 1 << 16
TYPE = r"!cuvil\.tensor<\[[^\]]*\] x \w+>"
_TYPE = re.compile(TYPE)
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(rb'\\(["\\nt]|[0-9A-Fa-f]{2})')
_NUMBER = re.compile(
    r"(0x[0-9A-Fa-f]+|-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)(?:\s*:\s*([a-z]+[0-9]+))?"
)
_INTS = re.compile(r"array<i64(?::\s*([-0-9,\s]*))?>")
_BOOLS = MappingProxyType({"true": True, "false": False})
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_WORD = re.compile(r"true\b|false\b|unit\b")
_TAGGED = re.compile(r"#cuvil\.(\w+)<")
_FORM = re.compile(r"\[([0-9,\s]*)\] x (\w+)")
_FUNCTION_TYPE = re.compile(rf"\(\s*(?:{TYPE}[\s,]*)*\)\s*->\s*(?:{TYPE}|\(\s*(?:{TYPE}[\s,]*)*\))")
_SYMBOL = re.compile(r"([A-Za-z_]\w*)\s*,\s*(-?[0-9]+)\s*,\s*([0-9]+|inf)\s*>")


@dataclass(frozen=True)
class SymbolRange:
    """``#cuvil.symbol<name, low, high>``, both ends included."""

    name: str
    low: int
    high: int | None


class AttrParser(Scanner):
    """Types and attributes; ``weights`` maps a digest, or its first 16 digits, to the data."""

    def __init__(self, text: str, weights: Mapping[str, Weight]) -> None:
        super().__init__(text)
        self.weights = weights
        self._types: dict[str, TensorType] = {}
        self._dims: dict[str, Dim] = {}
        self._depth = 0

    def type(self) -> TensorType:
        """``!cuvil.tensor<[N, 768] x f32>``"""
        match = self.need(_TYPE, "a type such as !cuvil.tensor<[N, 768] x f32>")
        return self.type_of(match.group(), match.start())

    def type_of(self, text: str, at: int) -> TensorType:
        """The type that ``text`` spells; ``at`` is its place, for errors."""
        found = self._types.get(text)
        if found is None:
            left = text.index("[")
            right = text.rindex("]")
            dtype = self._dtype(text[right + 4 : -1], at + right + 4)
            shape = self._dim_list(text[left + 1 : right], at + left + 1)
            found = self._types[text] = TensorType(shape, dtype)
        return found

    def _dtype(self, name: str, at: int) -> DType:
        if name not in DTYPES:
            self.fail(f"there is no element type {name!r}; use one of {', '.join(DTYPES)}", at)
        return DTYPES[name]

    def _dim_list(self, text: str, at: int) -> tuple[Dim, ...]:
        """Dims separated by commas that are not inside parentheses."""
        if not text.strip():
            return ()
        if "(" not in text:
            pieces = text.split(",")
        else:
            pieces, depth, start = [], 0, 0
            for i, c in enumerate(text):
                depth += (c == "(") - (c == ")")
                if c == "," and depth == 0:
                    pieces.append(text[start:i])
                    start = i + 1
            pieces.append(text[start:])
        dims = []
        for piece in pieces:
            dims.append(self._dim(piece, at))
            at += len(piece) + 1
        return tuple(dims)

    def _dim(self, text: str, at: int) -> Dim:
        found = self._dims.get(text)
        if found is None:
            try:
                found = self._dims[text] = parse_dim(text)
            except InvalidModelError as error:
                self.fail(error.message, at + len(text) - len(text.lstrip()))
        return found

    def string(self) -> str:
        """A quoted string."""
        match = self.need(_STRING, "a quoted string")
        raw = match.group(1)
        if "\\" not in raw:
            return raw
        data = _ESCAPE.sub(_unescape, raw.encode("utf-8", "surrogatepass"))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            self.fail("the string is not valid UTF-8", match.start())

    def dictionary(self) -> dict[str, Any]:
        """``{key = attribute, ...}``; a key alone is ``key = unit``."""
        self.expect("{")
        table: dict[str, Any] = {}
        if self.accept("}"):
            return table
        while True:
            at = self.skip()
            key = self.string() if self.peek() == '"' else self.need(_KEY, "a key").group()
            if key in table:
                self.fail(f"the key {key!r} comes twice", at)
            table[key] = self.attribute() if self.accept("=") else None
            if self.accept("}"):
                return table
            self.expect(",", "',' or '}'")

    def attribute(self) -> Any:
        """Any attribute, as the Python value that prints so."""
        first = self.peek()
        at = self.at
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(f"attributes are nested more than {MAX_DEPTH} deep")
        try:
            return self._dispatch(first, at)
        finally:
            self._depth -= 1

    def _dispatch(self, first: str, at: int) -> Any:
        if first == '"':
            return self.string()
        if first == "[":
            self.expect("[")
            return tuple(self._items("]"))
        if first == "{":
            return self.dictionary()
        if first == "!":
            return self.type()
        if first == "#":
            tag = self.need(_TAGGED, "an attribute such as #cuvil.dim<...>").group(1)
            reader = self._tags.get(tag)
            if reader is None:
                self.fail(f"there is no attribute #cuvil.{tag}", at)
            return reader(self)
        if first == "(":
            return self.need(_FUNCTION_TYPE, "a function type").group()
        if ints := self.match(_INTS):
            return self._ints(ints.group(1) or "", at)
        if word := self.match(_WORD):
            return {"true": True, "false": False, "unit": None}[word.group()]
        if number := self.match(_NUMBER):
            return self._number(number, at)
        self.fail("expected an attribute")

    def _ints(self, text: str, at: int) -> tuple[int, ...]:
        try:
            return tuple(int(x) for x in text.split(",")) if text.strip() else ()
        except ValueError:
            self.fail("expected integers separated by commas", at)

    def _number(self, match: re.Match[str], at: int) -> int | float:
        digits, kind = match.groups()
        is_float = kind == "f64" or (kind is None and any(c in digits for c in ".eE"))
        if kind not in (None, "i64", "f64"):
            self.fail(f"a number here is i64 or f64, not {kind}", match.start(2))
        if digits.startswith("0x"):
            if not is_float:
                return int(digits, 16)
            if len(digits) > 18:
                self.fail("an f64 has at most 16 hexadecimal digits", at)
            return float(np.uint64(int(digits, 16)).view(np.float64))
        if is_float:
            return float(digits)
        if any(c in digits for c in ".eE"):
            self.fail("an i64 has no fraction", at)
        return int(digits)

    def _items(self, end: str) -> list[Any]:
        items: list[Any] = []
        if self.accept(end):
            return items
        while True:
            items.append(self.attribute())
            if self.accept(end):
                return items
            self.expect(",", f"',' or {end!r}")

    def _until(self, pattern: re.Pattern[str], what: str) -> tuple[str, int]:
        match = self.need(pattern, what)
        return match.group(1), match.start(1)

    def _read_dim(self) -> Dim:
        text, at = self._until(re.compile(r"([^<>]*)>"), "a dimension and '>'")
        return self._dim(text, at)

    def _read_dims(self) -> tuple[Dim, ...]:
        text, at = self._until(re.compile(r"\[([^\]]*)\]\s*>"), "'[dims]>'")
        return self._dim_list(text, at)

    def _read_dtype(self) -> DType:
        text, at = self._until(re.compile(r"(\w+)>"), "an element type and '>'")
        return self._dtype(text, at)

    def _read_symbol(self) -> SymbolRange:
        name, low, high = self.need(_SYMBOL, "name, low, high (or inf) and '>'").groups()
        return SymbolRange(name, int(low), None if high == "inf" else int(high))

    def _read_constraint(self) -> Constraint:
        at = self.skip()
        text = self.string()
        self.expect(",")
        origin = self.string()
        self.expect(">")
        try:
            return parse_constraint(text, origin)
        except InvalidModelError as error:
            self.fail(error.message, at)

    def _form(self) -> TensorType:
        match = self.need(_FORM, "a static form such as [2, 3] x f32")
        dims = self._ints(match.group(1), match.start())
        return TensorType(dims, self._dtype(match.group(2), match.start(2)))

    def _read_dense(self) -> Weight:
        name = self.string()
        self.expect(",")
        at = self.skip()
        form = self._form()
        self.expect(",")
        self.expect("[")
        text, start = self._until(re.compile(r"([^\]]*)\]\s*>"), "elements and ']>'")
        pieces = [p.strip() for p in text.split(",")] if text.strip() else []
        count = form.elements
        if not isinstance(count, int) or count != len(pieces) or count > MAX_INLINE:
            self.fail(f"{len(pieces)} elements do not fill {form}", at)
        try:
            values = _elements(pieces, form.dtype)
        except (KeyError, ValueError, OverflowError):
            self.fail(f"expected elements of {form.dtype}", start)
        dims = [d for d in form.shape if isinstance(d, int)]
        return Weight(values.reshape(dims), name)

    def _read_weight(self) -> Weight:
        name = self.string()
        self.expect(",")
        at = self.skip()
        digest = self.string()
        self.expect(",")
        form = self._form()
        self.expect(">")
        found = self.weights.get(digest)
        if found is None:
            self.fail(f"no data was given for the weight {name!r} with digest {digest}", at)
        if found.type != form:
            self.fail(f"the data of weight {name!r} is {found.type}, not {form}", at)
        return found if found.name == name else Weight(found.array, name)

    _tags: Mapping[str, Callable[[AttrParser], Any]] = {
        "dim": _read_dim,
        "dims": _read_dims,
        "dtype": _read_dtype,
        "symbol": _read_symbol,
        "constraint": _read_constraint,
        "dense": _read_dense,
        "weight": _read_weight,
    }


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    plain = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t"}.get(code)
    return plain if plain is not None else bytes([int(code, 16)])


def _elements(pieces: list[str], dtype: DType) -> np.ndarray[Any, Any]:
    """The elements; ``0x...`` are the bits of a float. KeyError, ValueError, OverflowError."""
    if dtype.kind == "b":
        return np.array([_BOOLS[p] for p in pieces], dtype=np.bool_)
    if dtype.is_integer:
        return np.array([int(p) for p in pieces], dtype=dtype.numpy)
    out = np.zeros(len(pieces), dtype=dtype.numpy)
    bits = out.view(f"u{dtype.size}")
    for i, piece in enumerate(pieces):
        if piece.startswith("0x"):
            bits[i] = int(piece, 16)
        else:
            out[i] = float(piece)
    return out
