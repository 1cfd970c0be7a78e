"""Operators on strings that run in Python: pure functions of arrays and attributes.

String tensors are NumPy object arrays of Python's str.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from cuvil.errors import InputError, ShapeConstraintError
from cuvil.ir.text_pattern import compiled_pattern, pattern_fault

Array = np.ndarray[Any, Any]
_CASES: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
)
_NUMBERS = ("float32", "float64", "int32", "int64")


@dataclass(frozen=True)
class HostOperator:
    """A pure function of arrays and attributes, with how many arrays go in and come out.

    ``attributes`` tells for each attribute whether a value of it is well formed.
    """

    run: Callable[..., tuple[Array, ...]]
    inputs: int
    outputs: int
    attributes: Mapping[str, Callable[[Any], bool]]


def string_normalizer(
    x: Array,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    stopwords: Sequence[str] = (),
    locale: str = "",
) -> tuple[Array]:
    """Drop stop words, then change the case: ONNX StringNormalizer, opset 10.

    ``x`` is [C] or [1, C]; the result has its rank, and one empty string if no word is left. The
    comparison comes first, on the words as they are (in lower case unless it is case sensitive).
    Case is changed as Unicode has it, whatever the ``locale``. Raises ShapeConstraintError.
    """
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ShapeConstraintError(
            f"StringNormalizer takes strings of shape [C] or [1, C], not {list(x.shape)}"
        )
    key: Callable[[str], str] = str if is_case_sensitive else str.lower
    stop = {key(word) for word in stopwords}
    change = _CASES[case_change_action]
    words = [change(word) for word in x.reshape(-1) if key(word) not in stop]
    found = np.array(words or [""], dtype=object)
    return (found.reshape((1,) * (x.ndim - 1) + (-1,)),)


def string_concat(x: Array, y: Array) -> tuple[Array]:
    """x + y, broadcast (ONNX StringConcat, opset 20). Raises ShapeConstraintError."""
    try:
        a, b = np.broadcast_arrays(x, y)
    except ValueError:
        raise ShapeConstraintError(
            f"StringConcat: {list(x.shape)} and {list(y.shape)} do not broadcast"
        ) from None
    return (_texts([u + v for u, v in zip(a.flat, b.flat)], a.shape),)


def string_split(
    x: Array, delimiter: str = "", maxsplit: int | None = None
) -> tuple[Array, Array]:
    """The parts of each string, padded with empty ones to the longest row, and how many there are
    (ONNX StringSplit, opset 20). Without a delimiter parts are what whitespace separates."""
    most = -1 if maxsplit is None else maxsplit
    rows = [word.split(delimiter or None, most) for word in x.flat]
    width = max(map(len, rows), default=0)
    flat = [part for row in rows for part in (*row, *[""] * (width - len(row)))]
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    return _texts(flat, (*x.shape, width)), counts.reshape(x.shape)


def regex_full_match(x: Array, pattern: str = "") -> tuple[Array]:
    """Whether a pattern in RE2's syntax matches all of each string (ONNX RegexFullMatch)."""
    match = compiled_pattern(pattern).fullmatch
    found = np.array([match(word) is not None for word in x.flat], dtype=bool)
    return (found.reshape(x.shape),)


_DECIMAL = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", re.A | re.I)
_WHOLE = re.compile(r"[+-]?\d+", re.A)


def text_to_number(x: Array, to: str = "float32") -> tuple[Array]:
    """Decimal text as numbers (ONNX Cast from string). Raises InputError for other text."""
    real = to.startswith("float")
    form, read = (_DECIMAL, float) if real else (_WHOLE, int)
    found = np.empty(x.shape, dtype=to)
    for place, word in np.ndenumerate(x):
        where = f"the string {word!r} at {list(place)}"
        if form.fullmatch(word.strip()) is None:
            kind = "decimal number" if real else "whole number"
            raise InputError(f"Cast to {to}: {where} is no {kind}", hint=f"give a {kind} there")
        try:
            with np.errstate(over="ignore"):  # to infinity
                found[place] = read(word)
        except OverflowError:
            least, most = np.iinfo(to).min, np.iinfo(to).max
            raise InputError(
                f"Cast to {to}: {where} is out of range", hint=f"give one of {least} to {most}"
            ) from None
    return (found,)


def text_constant(words: Sequence[str] = (), shape: Sequence[int] = ()) -> tuple[Array]:
    """Strings that the model holds."""
    return (_texts(list(words), tuple(shape)),)


def _texts(flat: Sequence[str], shape: tuple[int, ...]) -> Array:
    out = np.empty(math.prod(shape), dtype=object)
    out[:] = flat
    return out.reshape(shape)


def is_texts(value: Any) -> bool:
    """Whether a value from a manifest is a list of strings."""
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


OPERATORS: Mapping[str, HostOperator] = MappingProxyType(
    {
        "string_normalizer": HostOperator(
            string_normalizer, 1, 1,
            MappingProxyType({
                "case_change_action": lambda v: isinstance(v, str) and v in _CASES,
                "is_case_sensitive": lambda v: type(v) is int and v in (0, 1),
                "stopwords": is_texts,
                "locale": _is_text,
            }),
        ),
        "string_concat": HostOperator(string_concat, 2, 1, MappingProxyType({})),
        "string_split": HostOperator(
            string_split, 1, 2,
            MappingProxyType({"delimiter": _is_text, "maxsplit": lambda v: type(v) is int}),
        ),
        "regex_full_match": HostOperator(
            regex_full_match, 1, 1,
            MappingProxyType({"pattern": lambda v: _is_text(v) and not pattern_fault(v)}),
        ),
        "text_to_number": HostOperator(
            text_to_number, 1, 1, MappingProxyType({"to": lambda v: v in _NUMBERS})
        ),
        "text_constant": HostOperator(
            text_constant, 0, 1,
            MappingProxyType({
                "words": is_texts,
                "shape": lambda v: isinstance(v, list) and all(type(d) is int for d in v),
            }),
        ),
    }
)  # fmt: skip
