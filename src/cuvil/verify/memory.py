"""Sizes to verify at for which this machine has the memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from cuvil.analysis.footprint import largest_at
from cuvil.errors import NoMemoryError
from cuvil.ir.core import Module

Sizes = Mapping[str, int]


def memory_bytes() -> int | None:
    """The machine's memory, None where it is not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def sizes_that_fit(
    module: Module, tried: Sequence[dict[str, int]], most: int | None = None
) -> list[dict[str, int]]:
    """Those of the sizes at which no input or output alone needs more than the machine's memory (or
    ``most`` bytes).

    Raises NoMemoryError, naming the largest tensor, if there are none.
    """
    most = most if most is not None else memory_bytes()
    if most is None:
        return list(tried)
    needs = [(largest_at(module, sizes), sizes) for sizes in tried]
    found = [sizes for (size, _), sizes in needs if size <= most]
    if found or not needs:
        return found
    (size, name), sizes = min(needs, key=lambda need: need[0])
    at = ", ".join(f"{symbol} = {value}" for symbol, value in sizes.items())
    raise NoMemoryError(
        f"no memory to verify with: {name}, has {size} bytes{f' at {at}' if at else ''}; this "
        f"machine has {most}",
        hint="give smaller sizes, or compile with verify=False (--no-verify)",
        stage="verify",
    )
