"""Which branch is compiled where sizes decide and one result can't stand for both.

The rest of a model may fit only one of them: what it then comes to is tried with the other, one
branch after another, the last chosen first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cuvil.errors import CuvilError, InvalidModelError, UnsupportedOpError

_MOST = 16  # captures
T = TypeVar("T")


class Choices:
    """By the label of an If, whether its first branch is compiled."""

    def __init__(self) -> None:
        self.taken: dict[str, bool] = {}
        self._turned: set[str] = set()

    def take(self, label: str, usual: bool) -> bool:
        """The branch to compile: ``usual``, unless the rest of the model didn't fit that one."""
        return self.taken.setdefault(label, usual)

    def turn(self) -> bool:
        """Choose the other branch of the last If that still has both; False if there is none.
        What comes behind it is chosen anew."""
        while self.taken:
            label, first = self.taken.popitem()
            if label not in self._turned:
                self._turned.add(label)
                self.taken[label] = not first
                return True
            self._turned.discard(label)
        return False


def with_choices(capture: Callable[[Choices], T]) -> T:
    """The first capture that is well formed and has all its operators. Raises the first one's
    error if none is, or if too many are tried."""
    choices = Choices()
    found, fault = _tried(capture, choices)
    tries = 1
    while found is None and tries < _MOST and choices.turn():
        found = _tried(capture, choices)[0]
        tries += 1
    if found is None:
        assert fault is not None
        raise fault
    return found


def _tried(
    capture: Callable[[Choices], T], choices: Choices
) -> tuple[T | None, CuvilError | None]:
    try:
        return capture(choices), None
    except (InvalidModelError, UnsupportedOpError) as error:
        return None, error
