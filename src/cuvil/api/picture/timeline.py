"""A compilation's stages, passes and units on a line of time."""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.api.picture.svg import WIDTH, frame, rect, text
from cuvil.runtime.chrome_trace import Slice, chrome_trace
from cuvil.runtime.profile import time_text

_ROW = 24
_LEFT = 110


def timeline(slices: Sequence[Slice]) -> str:
    """The picture as SVG text."""
    if not slices:
        return ""
    start = min(s.begin for s in slices)
    span = max(max(s.end for s in slices) - start, 1e-9)
    rows = _rows(slices)
    names = {("stage", 0): "stages", ("pass", 0): "passes"}
    body = ""
    for tick in range(11):
        x = _LEFT + (WIDTH - _LEFT - 30) * tick / 10
        body += f'<path class="tick" d="M{x:.1f} 18V{22 + len(rows) * _ROW}"/>'
        body += text(x, 12, time_text(span * tick / 10) if tick else "0", "soft mid")
    for row, (key, members) in enumerate(rows.items()):
        y = 22 + row * _ROW
        body += text(4, y + 15, names.get(key, f"compiler {key[1]}"), "soft")
        for s in members:
            x = _LEFT + (WIDTH - _LEFT - 30) * (s.begin - start) / span
            width = (WIDTH - _LEFT - 30) * (s.end - s.begin) / span
            kind = "store" if s.args.get("from the store") else s.category
            body += rect(x, y + 2, width, _ROW - 4, kind, told(s))
            if width > 34:
                body += text(x + 3, y + 15, s.name, "inside", width - 4)
    return frame(body, 30 + len(rows) * _ROW)


def _rows(slices: Sequence[Slice]) -> dict[tuple[str, int], list[Slice]]:
    tracks = sorted({s.track for s in slices if s.category == "unit"})
    keys = [("stage", 0), ("pass", 0), *(("unit", t) for t in tracks)]
    found: dict[tuple[str, int], list[Slice]] = {key: [] for key in keys}
    for s in slices:
        found[s.category, s.track if s.category == "unit" else 0].append(s)
    return {key: members for key, members in found.items() if members}


def told(s: Slice) -> str:
    """A slice in words."""
    facts = "".join(f"\n{name}: {value}" for name, value in s.args.items())
    return f"{s.category} {s.name}: {time_text(s.end - s.begin)}{facts}"


def compile_trace(name: str, slices: Sequence[Slice]) -> dict[str, object]:
    """The same as Chrome's trace JSON."""
    tracks = {t: f"compiler {t}" if t else "main" for t in sorted({s.track for s in slices} | {0})}
    return chrome_trace(f"compile {name}", tracks, slices)
