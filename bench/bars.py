"""Figures held to bars: one line each, and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bar:
    """A measured value in ``unit``, and the limit it must stay below, or above with ``least``."""

    name: str
    value: float
    limit: float
    unit: str
    least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the value is on the right side."""
        return self.value >= self.limit if self.least else self.value < self.limit

    def __str__(self) -> str:
        side = "at least" if self.least else "below"
        verdict = "holds" if self.holds else "MISSED"
        return f"{self.name:52s} {self.value:9.4g} {self.unit:3s} {side} {self.limit:g}: {verdict}"


def report(bars: Sequence[Bar], file: Path | None) -> int:
    """Write them to a file if asked for; 0 if all hold, else 1. They were printed as they came."""
    if file is not None:
        file.write_text(json.dumps([{**asdict(b), "holds": b.holds} for b in bars], indent=1))
    return 0 if all(b.holds for b in bars) else 1
