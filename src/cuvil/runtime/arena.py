"""Scratch memory of one calling thread."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
from typing import Any

import numpy as np

from cuvil.errors import NoMemoryError

_ALIGNMENT = 64
_LARGE = 1 << 20  # from here on pages of its own, which go back to the system when freed
_SLACK = 4
PATIENCE = 256
_MOST_PATIENCE = 1 << 20


class Arena:
    """``size`` usable bytes at ``address``, aligned to 64; freed with the object. ``argument`` is
    the address as C takes it."""

    __slots__ = ("_memory", "address", "argument", "size")

    def __init__(self, size: int) -> None:
        """Raises NoMemoryError if there is not that much memory."""
        self.size = size
        self._memory: Any = None
        self.address = 0
        if size >= _LARGE:
            try:
                block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            except (OSError, OverflowError, ValueError):
                raise NoMemoryError(
                    f"no memory for a workspace of {size} bytes", hint="pass smaller inputs"
                ) from None
            if hasattr(mmap, "MADV_HUGEPAGE"):
                with contextlib.suppress(OSError):
                    block.madvise(mmap.MADV_HUGEPAGE)
            self._memory = np.frombuffer(block, np.uint8)
            self.address = int(self._memory.__array_interface__["data"][0])
        elif size:
            self._memory = np.empty(size + _ALIGNMENT, np.uint8)
            start = int(self._memory.__array_interface__["data"][0])
            self.address = -(-start // _ALIGNMENT) * _ALIGNMENT
        self.argument = ctypes.c_void_p.from_param(self.address)


EMPTY = Arena(0)


def most_kept(size: int) -> int:
    """The size up to which an arena is no waste for a call that needs ``size`` bytes."""
    return max(_SLACK * size, _LARGE)


class Scratch(threading.local):
    """The arena of each thread that calls a model.

    It grows at once. It shrinks to what was needed after so many calls that left three quarters
    of it unused; where it has to grow again after that, the patience doubles, so that a mix of
    small and large calls settles at the large size.
    """

    arena = EMPTY
    _wasteful = 0
    _needed = 0
    _patience = PATIENCE
    _shrunk = False

    def fit(self, size: int) -> Arena:
        """An arena for a call that the present one is too small for, or much too large.

        Raises NoMemoryError if there is not that much memory.
        """
        if size > self.arena.size:
            if self._shrunk:
                self._patience = min(2 * self._patience, _MOST_PATIENCE)
            return self._take(size, shrunk=False)
        self._wasteful += 1
        self._needed = max(self._needed, size)
        if self._wasteful < self._patience:
            return self.arena
        return self._take(self._needed, shrunk=True)

    def _take(self, size: int, shrunk: bool) -> Arena:
        # The old one goes first, so that both are never held at once.
        self.arena = EMPTY
        self._wasteful = self._needed = 0
        self._shrunk = shrunk
        self.arena = Arena(size)
        return self.arena
