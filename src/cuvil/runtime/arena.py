"""Scratch memory of one calling thread."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np

_ALIGNMENT = 64
_LARGE = 1 << 20  # from here on pages of its own, which go back to the system when freed


class Arena:
    """``size`` usable bytes at ``address``, aligned to 64; freed with the object."""

    __slots__ = ("_memory", "address", "size")

    def __init__(self, size: int) -> None:
        """Raises MemoryError if there is not that much memory."""
        self.size = size
        self._memory: Any = None
        self.address = 0
        if size >= _LARGE:
            try:
                block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            except (OSError, OverflowError, ValueError):
                raise MemoryError(f"no memory for a workspace of {size} bytes") from None
            if hasattr(mmap, "MADV_HUGEPAGE"):
                with contextlib.suppress(OSError):
                    block.madvise(mmap.MADV_HUGEPAGE)
            self._memory = np.frombuffer(block, np.uint8)
            self.address = int(self._memory.__array_interface__["data"][0])
        elif size:
            self._memory = np.empty(size + _ALIGNMENT, np.uint8)
            start = int(self._memory.__array_interface__["data"][0])
            self.address = -(-start // _ALIGNMENT) * _ALIGNMENT


EMPTY = Arena(0)
