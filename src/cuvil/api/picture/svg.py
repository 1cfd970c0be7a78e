"""Pieces of SVG that the pictures share: text, colours for light and dark, frames."""

from __future__ import annotations

from html import escape

WIDTH = 1300
LEVELS = 8
_LIGHT = (
    "#e9edf1", "#fdeec2", "#fdd58a", "#fbb45c", "#f58a3c", "#e55b2b", "#c9301f", "#98121a",
)  # fmt: skip
_DARK = (
    "#2b3641", "#4a3f2a", "#6b5024", "#92611f", "#ba6f1c", "#de7a20", "#fb8b34", "#ffb066",
)  # fmt: skip
_CATEGORIES = {"stage": ("#4a7fb5", "#5b93cc"), "pass": ("#5a9a78", "#62a885"),
               "unit": ("#a0742e", "#b98a41"), "store": ("#b9bec4", "#565f69")}  # fmt: skip
_INK = {"--ink": ("#1c232b", "#e4e9ee"), "--soft": ("#66717d", "#93a0ad"),
        "--line": ("#b6bec7", "#4a5560"), "--page": ("#ffffff", "#12171c"),
        "--band": ("#f5f7f9", "#181f26")}  # fmt: skip


def style() -> str:
    """The rules of both pictures; colours follow the reader's preference of light or dark."""
    light, dark = "", ""
    for name, (day, night) in _INK.items():
        light += f"{name}:{day};"
        dark += f"{name}:{night};"
    for level in range(LEVELS):
        light += f"--h{level}:{_LIGHT[level]};"
        dark += f"--h{level}:{_DARK[level]};"
    for name, (day, night) in _CATEGORIES.items():
        light += f"--{name}:{day};"
        dark += f"--{name}:{night};"
    heat = "".join(f".h{i}{{fill:var(--h{i})}}" for i in range(LEVELS))
    kinds = "".join(f".{name}{{fill:var(--{name})}}" for name in _CATEGORIES)
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
        "svg text{font:12px system-ui,sans-serif;fill:var(--ink)}"
        "svg .soft{fill:var(--soft)}svg .name{font-weight:600}svg .end{text-anchor:end}"
        "svg .mid{text-anchor:middle}svg .edge{fill:none;stroke:var(--line);stroke-width:1.4}"
        "svg .tick{stroke:var(--line);stroke-width:.5}"
        "svg .mark{stroke:var(--ink);stroke-width:.8}svg .band{fill:var(--band)}"
        f"svg .back{{fill:var(--page)}}svg .inside{{fill:#fff;font-size:11px}}{heat}{kinds}"
    )


def frame(body: str, height: float, alone: bool = False) -> str:
    """A whole picture; ``alone`` for a file of its own, with its style and background."""
    width = WIDTH
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}"'
    head += f' width="{width}" height="{height:.0f}">'
    if alone:
        head += f'<style>{style()}</style><rect class="back" width="{width}" height="100%"/>'
    return f"{head}{body}</svg>\n"


def text(x: float, y: float, words: str, kind: str = "", room: float | None = None) -> str:
    """Words at a place, cut to ``room`` units."""
    if room is not None:
        words = shortened(words, room)
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escape(words)}</text>'


def rect(
    x: float, y: float, width: float, height: float, kind: str, title: str = ""
) -> str:
    """A box, with words that appear when it is pointed at."""
    inner = f"<title>{escape(title)}</title>" if title else ""
    size = f'width="{max(width, 0.5):.2f}" height="{height:.1f}"'
    return f'<rect x="{x:.2f}" y="{y:.1f}" {size} rx="1.5" class="{kind}">{inner}</rect>'


def shortened(words: str, room: float) -> str:
    """Words that fit into ``room`` units, by the usual width of a letter."""
    letters = max(int(room / 6.4), 1)
    return words if len(words) <= letters else words[: max(letters - 1, 0)] + "…"


def heat(share: float, largest: float) -> str:
    """The class of a share's colour: what is a quarter of the largest is half as hot."""
    if share < 0.001 or largest <= 0:
        return "h0"
    return f"h{min(LEVELS - 1, max(1, round((LEVELS - 1) * (share / largest) ** 0.5)))}"
