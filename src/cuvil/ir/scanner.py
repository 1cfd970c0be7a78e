"""Reads text piece by piece; every error points at its line and column."""

from __future__ import annotations

import re
from typing import NoReturn

from cuvil.errors import InvalidModelError

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")


class Scanner:
    """A text and a position; blanks and ``//`` comments count for nothing."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> int:
        """Move past blanks and comments; the new position."""
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.at

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        at = self.skip()
        return self.text[at : at + 1]

    def accept(self, literal: str) -> bool:
        """Take ``literal`` if it comes next."""
        at = self.skip()
        if self.text.startswith(literal, at):
            self.at = at + len(literal)
            return True
        return False

    def expect(self, literal: str, what: str = "") -> None:
        """Take ``literal`` or fail."""
        if not self.accept(literal):
            self.fail(f"expected {what or repr(literal)}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Take what ``pattern`` matches next, if it does."""
        found = pattern.match(self.text, self.skip())
        if found is not None:
            self.at = found.end()
        return found

    def need(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Take what ``pattern`` matches next, or fail."""
        found = self.match(pattern)
        if found is None:
            self.fail(f"expected {what}")
        return found

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise InvalidModelError with the line, the column and a marker under the place."""
        place = self.at if at is None else at
        line = self.text.count("\n", 0, place) + 1
        start = self.text.rfind("\n", 0, place) + 1
        end = self.text.find("\n", place)
        shown = self.text[start : end if end >= 0 else len(self.text)]
        column = place - start
        left = max(0, column - 60)
        marker = " " * (column - left) + "^"
        raise InvalidModelError(
            f"line {line}, column {column + 1}: {message}\n"
            f"  {shown[left : left + 100]}\n  {marker}",
            stage="parse",
        )
