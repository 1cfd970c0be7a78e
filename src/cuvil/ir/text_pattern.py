"""Patterns in RE2's syntax (github.com/google/re2/wiki/Syntax) on Python's regular expressions.

What both have with one meaning is taken over, what RE2 means otherwise is rewritten, and what one
of them lacks is a fault: RE2 has no backreferences and no look-around, Python no Unicode classes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType

from cuvil.errors import InputError

_ASCII: Mapping[str, str] = MappingProxyType(
    {"d": "0-9", "s": r"\t\n\f\r ", "w": "0-9A-Za-z_"}
)
_POSIX: Mapping[str, str] = MappingProxyType(
    {
        "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ",
        "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
        "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_",
        "xdigit": "0-9A-Fa-f",
    }
)  # fmt: skip
_SAME = frozenset("abfnrtv")  # control characters; b is a word's edge outside of a class
_HEX = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
_GROUP = re.compile(r"\(\?(?::|P?<[A-Za-z_]\w*>)")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_MOST_REPEATS = 1000


class _Fault(Exception):
    """Why a pattern can't be used."""


@functools.lru_cache(maxsize=64)
def compiled_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, ready to match. Raises InputError with the fault that it has."""
    try:
        return re.compile(_Rewriter(pattern).run())
    except _Fault as fault:
        raise InputError(f"the pattern {pattern!r}: {fault}") from None
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"the pattern {pattern!r} is malformed: {error}") from None


def pattern_fault(pattern: str) -> str:
    """Why a pattern can't be used, or nothing."""
    try:
        compiled_pattern(pattern)
    except InputError as error:
        return error.message
    return ""


class _Rewriter:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0

    def run(self) -> str:
        out = []
        while self.at < len(self.text):
            out.append(self._next())
        return "".join(out)

    def _take(self, count: int = 1) -> str:
        part = self.text[self.at : self.at + count]
        self.at += count
        return part

    def _next(self) -> str:
        char = self.text[self.at]
        if char == "\\":
            return self._escape()
        if char == "[":
            return self._class()
        if char == "(":
            return self._group()
        if char == "{":
            return self._braces()
        self._take()
        # Python's $ also matches before a last newline.
        return r"\Z" if char == "$" else r"\A" if char == "^" else self._repeated(char)

    def _repeated(self, char: str) -> str:
        """What repeats, and whether it takes as little as it can; not as much and all."""
        if char in "*+?":
            if self.text[self.at : self.at + 1] == "+":
                raise _Fault(f"it repeats a repetition at {self.at}")
            if self.text[self.at : self.at + 1] == "?":
                return char + self._take()
        return char

    def _braces(self) -> str:
        found = _REPEAT.match(self.text, self.at)
        if found is None:
            self._take()
            return r"\{"
        if max(int(n) for n in (found[1], found[3] or "0")) > _MOST_REPEATS:
            raise _Fault(f"it repeats more than {_MOST_REPEATS} times")
        self.at = found.end()
        if self.text[self.at : self.at + 1] in ("+", "*", "{") and self.at < len(self.text):
            raise _Fault(f"it repeats a repetition at {self.at}")
        return found[0]

    def _group(self) -> str:
        if self.text[self.at + 1 : self.at + 2] != "?":
            return self._take()
        found = _GROUP.match(self.text, self.at)
        if found is None:
            raise _Fault(f"{self.text[self.at : self.at + 4]!r} has no meaning here")
        self.at = found.end()
        return "(?:"

    def _escape(self, inside: bool = False) -> str:
        found = _HEX.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            code = int(found[1] or found[2], 16)
            if code > 0x10FFFF:
                raise _Fault(f"there is no character {code:x}")
            return re.escape(chr(code))
        char = self._take(2)[1:]
        if char.lower() in _ASCII and char:
            chosen = _ASCII[char.lower()]
            if char.islower():
                return chosen if inside else f"[{chosen}]"
            if inside:
                raise _Fault(f"\\{char} stands in a class")
            return f"[^{chosen}]"
        if not inside and char in ("b", "B"):
            return f"(?a:\\{char})"
        if not inside and char in ("A", "z"):
            return r"\A" if char == "A" else r"\Z"
        if char in _SAME and not (inside and char == "b"):
            return f"\\{char}"
        if not char or char.isalnum() or ord(char) > 127:
            raise _Fault(f"\\{char} has no meaning here")
        return re.escape(char)

    def _class(self) -> str:
        out = [self._take()]
        if self.text[self.at : self.at + 1] == "^":
            out.append(self._take())
        first = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "]" and not first:
                return "".join([*out, self._take()])
            first = False
            if char == "[" and self.text[self.at + 1 : self.at + 2] == ":":
                out.append(self._posix())
            elif char == "\\":
                out.append(self._escape(inside=True))
            else:
                out.append("-" if char == "-" else re.escape(char))
                self._take()
        raise _Fault("a class has no end")

    def _posix(self) -> str:
        end = self.text.find(":]", self.at)
        name = self.text[self.at + 2 : end] if end >= 0 else ""
        if name not in _POSIX:
            raise _Fault(f"there is no class {name!r}")
        self.at = end + 2
        return _POSIX[name]
