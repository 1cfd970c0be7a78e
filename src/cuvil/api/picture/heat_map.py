"""The heat map: each kernel a row in the order they run, its edges as lanes, its time as heat."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cuvil.api.picture.collect import Node
from cuvil.api.picture.svg import WIDTH, frame, heat, rect, text

_ROW = 22
_LANES_ROOM = 132
_WIDEST_LANE = 14
_STRIP = 40
_RESULT, _BAR, _FIGURES, _STOPS = 350, 520, 690, 910
_MARKS = ("contraction", "reduce", "map", "alone")


def heat_map(nodes: Sequence[Node], title: str, alone: bool = False) -> str:
    """The picture as SVG text."""
    top = 24.0
    body = text(8, 16, title, "name", WIDTH - 480) + _legend(WIDTH - 460, 12)
    body += _strip(nodes, top)
    top += _STRIP + 34
    lanes = _lanes(nodes)
    step = min(_WIDEST_LANE, _LANES_ROOM / max(max(lanes, default=0), 1))
    names = 28 + max(lanes, default=0) * step
    body += _headers(names, top - 8)
    body += "".join(
        rect(0, top + i * _ROW, WIDTH, _ROW, "band") for i in range(0, len(nodes), 2)
    )
    body += _edges(nodes, lanes, step, top)
    largest = max((n.share for n in nodes), default=0.0)
    for index, node in enumerate(nodes):
        x, y = 10 + lanes[index] * step, top + (index + 0.5) * _ROW
        body += _row(node, (x, y), names, largest)
    return frame(body, top + len(nodes) * _ROW + 10, alone)


def _legend(x: float, y: float) -> str:
    found = ""
    for number, kind in enumerate(_MARKS):
        found += _mark(kind, x + number * 105, y, "h0") + text(x + 10 + number * 105, y + 4, kind)
    return found


def _headers(names: float, y: float) -> str:
    heads = (
        (names, "kernel"), (_RESULT, "result"), (_BAR, "time"),
        (_FIGURES, "share · of this machine's ceiling"),
        (_STOPS, "fusion stops before it, as"),
    )  # fmt: skip
    return "".join(text(x, y, words, "soft") for x, words in heads)


def _strip(nodes: Sequence[Node], y: float) -> str:
    """All kernels side by side, each as wide as its share."""
    largest = max((n.share for n in nodes), default=0.0)
    total = sum(n.share for n in nodes) or 1.0
    x, found = 8.0, ""
    for node in nodes:
        width = (WIDTH - 16) * node.share / total
        found += rect(x, y, width, _STRIP - 16, heat(node.share, largest), _told(node))
        if width > 60:
            found += text(x + 3, y + _STRIP - 2, f"{node.number} {node.name}", "soft", width - 14)
        x += width
    return found


def _lanes(nodes: Sequence[Node]) -> list[int]:
    """A lane for each kernel's result, free again after its last reader."""
    last = {n.number: n.number for n in nodes}
    for node in nodes:
        for read in node.reads:
            last[read] = max(last.get(read, read), node.number)
    busy: dict[int, int] = {}  # lane: the kernel that ends it
    found: list[int] = []
    for node in nodes:
        for lane in [lane for lane, until in busy.items() if until <= node.number]:
            del busy[lane]
        lane = next(i for i in range(len(nodes) + 1) if i not in busy)
        if last[node.number] > node.number:
            busy[lane] = last[node.number]
        found.append(lane)
    return found


def _edges(nodes: Sequence[Node], lanes: Sequence[int], step: float, top: float) -> str:
    found = ""
    for index, node in enumerate(nodes):
        x2, y2 = 10 + lanes[index] * step, top + (index + 0.5) * _ROW
        for read in node.reads:
            x1, y1 = 10 + lanes[read] * step, top + (read + 0.5) * _ROW
            turn = y2 - 0.7 * _ROW
            path = f"M{x1:.1f} {y1:.1f}V{turn:.1f}C{x1:.1f} {y2 - 4:.1f} {x2:.1f} {turn:.1f}"
            found += f'<path class="edge" d="{path} {x2:.1f} {y2:.1f}"/>'
    return found


def _row(node: Node, mark: tuple[float, float], names: float, largest: float) -> str:
    x, y = mark
    level = heat(node.share, largest)
    base = y + 4
    width = 160 * node.share / largest if largest else 0.0
    reasons = "; ".join(dict.fromkeys(reason for _, reason in node.stops))
    return (
        f"<g><title>{escape(_told(node))}</title>"
        + _mark(node.kind, x, y, level)
        + text(names, base, f"{node.number}  {node.name}", "name", _RESULT - names - 6)
        + text(_RESULT, base, ", ".join(node.outputs), "soft", _BAR - _RESULT - 6)
        + rect(_BAR, y - 7, width, 14, level)
        + text(_FIGURES, base, node.figures, "", _STOPS - _FIGURES - 6)
        + text(_STOPS, base, reasons, "soft", WIDTH - _STOPS - 6)
        + "</g>"
    )


def _mark(kind: str, x: float, y: float, level: str) -> str:
    """A kernel's place in the graph, of a shape for each kind."""
    points = {
        "contraction": ((-5, -5), (5, -5), (5, 5), (-5, 5)),
        "reduce": ((0, -6), (6, 0), (0, 6), (-6, 0)),
        "alone": ((0, -6), (6, 5), (-6, 5)),
    }.get(kind)
    if points is None:
        return f'<circle class="mark {level}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    place = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)
    return f'<polygon class="mark {level}" points="{place}"/>'


def _told(node: Node) -> str:
    """Everything about a kernel, in lines."""
    lines = [
        f"{node.number} {node.name} ({node.kind}): {node.figures}",
        *node.facts,
        f"ops: {' '.join(node.ops)}",
        f"from: {node.places}",
        f"reads: {', '.join(node.inputs)}",
        f"writes: {', '.join(node.outputs)}",
        *[f"not fused with {read}: {reason}" for read, reason in node.stops],
    ]
    return "\n".join(lines)
