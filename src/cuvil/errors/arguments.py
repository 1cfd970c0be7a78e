"""What an argument may be: a wrong one is refused by its name, with what to give instead."""

from __future__ import annotations

import numbers
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuvil.errors import InputError
from cuvil.errors.words import shown

_TEXTS = (str, bytes, bytearray)


@dataclass(frozen=True)
class Check:
    """A test of one argument; ``wanted`` says what passes it, after the word "give"."""

    fits: Callable[[Any], bool]
    wanted: str

    def __call__(self, name: str, value: object) -> None:
        """Raises InputError unless the value fits."""
        if not self.fits(value):
            raise InputError(f"{name} is {shown(value)}", hint=f"give {self.wanted}")

    @property
    def optional(self) -> Check:
        """The same, and None."""
        return Check(lambda value: value is None or self.fits(value), self.wanted)


def of_type(types: type | tuple[type, ...], wanted: str) -> Check:
    """An instance of a type."""
    return Check(lambda value: isinstance(value, types), wanted)


def whole(low: int | None = None, high: int | None = None) -> Check:
    """A whole number with these ends, both included; NumPy's are too, True and False are not."""
    span = f" from {low} to {high}"
    if high is None:
        span = "" if low is None else f" of at least {low}"
    return Check(lambda value: _is_whole(value, low, high), f"a whole number{span}")


def _is_whole(value: Any, low: int | None, high: int | None) -> bool:
    if isinstance(value, bool):
        return False
    try:
        number = operator.index(value)
    except TypeError:
        return False
    return (low is None or low <= number) and (high is None or number <= high)


def one_of(words: Iterable[str]) -> Check:
    """One of these words."""
    known = tuple(words)
    return Check(
        lambda value: isinstance(value, str) and value in known, " or ".join(map(repr, known))
    )


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str)


def is_list(value: Any) -> bool:
    """Whether it is a sequence of items: a list or a tuple, but no text."""
    return isinstance(value, Sequence) and not isinstance(value, _TEXTS)


FLAG = Check(lambda value: isinstance(value, int) and value in (0, 1), "True or False")
PATH = Check(_is_path, "a path, as text or a pathlib.Path")
TEXT = of_type(str, "text")
TABLE = of_type(Mapping, "a dict")
FUNCTION = Check(callable, "a function")
NUMBER = Check(
    lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool), "a number"
)


def check_all(checks: Mapping[str, Check], given: Mapping[Any, Any], what: str = "") -> None:
    """Raise InputError for the first argument that has a check and doesn't pass it; ``what``
    goes before its name."""
    for name, value in given.items():
        if name in checks:
            checks[name](f"{what}{name}", value)
