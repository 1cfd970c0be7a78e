"""Slices of time as Chrome's trace JSON, which Perfetto and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Slice:
    """Seconds from ``begin`` to ``end`` on a track; ``args`` is shown beside it."""

    name: str
    category: str
    begin: float
    end: float
    track: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)


def chrome_trace(
    process: str, tracks: Mapping[int, str], slices: Iterable[Slice]
) -> dict[str, Any]:
    """The document, as plain data; times begin at the first slice."""
    ordered = sorted(slices, key=lambda s: (s.track, s.begin, -s.end))
    start = min((s.begin for s in ordered), default=0.0)
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": process}}
    ]
    for track, name in tracks.items():
        events.append(
            {"ph": "M", "pid": 1, "tid": track, "name": "thread_name", "args": {"name": name}}
        )
    events += [
        {
            "ph": "X",
            "pid": 1,
            "tid": s.track,
            "name": s.name,
            "cat": s.category,
            "ts": round((s.begin - start) * 1e6, 3),
            "dur": round((s.end - s.begin) * 1e6, 3),
            "args": dict(s.args),
        }
        for s in ordered
    ]
    return {"traceEvents": events, "displayTimeUnit": "ns"}
