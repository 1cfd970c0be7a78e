"""Words of messages that depend on what they speak of."""

from __future__ import annotations

from typing import Any

_LONGEST = 60
_VOWELS = "aeiouAEIO"


def counted(count: int, one: str, several: str = "") -> str:
    """``"1 input"``, ``"2 inputs"``; ``several`` where that is not ``one`` with an s."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def were_given(count: int) -> str:
    """``"1 was given"``, ``"2 were given"``."""
    return f"{count} {'was' if count == 1 else 'were'} given"


def with_article(noun: str) -> str:
    """``"a str"``, ``"an int"``."""
    return f"{'an' if noun[:1] in _VOWELS else 'a'} {noun}"


def kind_of(value: object) -> str:
    """A value's type with its article."""
    return with_article(type(value).__name__)


def shown(value: Any) -> str:
    """A value as a message has it: as Python writes it, or its type where that is long."""
    text = repr(value)
    plain = len(text) <= _LONGEST and "\n" not in text and not text.startswith("<")
    return text if plain else kind_of(value)
