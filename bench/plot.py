"""Bars of latency beside cuvil's, from what bench/latency.py measured.

    python bench/plot.py [JSON] [--batch B] [-o docs/latency.svg]

Needs matplotlib (``pip install "cuvil[plot]"``). A bar is a runtime's median over cuvil's, on a
logarithmic scale: to the right of the line cuvil is faster. A project stands with its fastest way.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.results import FAMILIES, MEASURED, Measured, Row, read  # noqa: E402

COLOURS = ("#3b6ea5", "#d98c2b", "#b5483a", "#8a8f98")
_BAR, _GAP = 0.18, 0.28  # inches


def relative(row: Row) -> dict[str, float]:
    """The median of each project's fastest runtime over cuvil's."""
    if "cuvil" not in row.medians:
        return {}
    best = {family: row.best(row.medians, names) for family, names in FAMILIES.items()}
    own = row.medians["cuvil"]
    return {family: row.medians[name] / own for family, name in best.items() if name is not None}


def panels(measured: Measured, batch: int) -> dict[int, dict[str, dict[str, float]]]:
    """By number of threads, then by model: what :func:`relative` gives."""
    found: dict[int, dict[str, dict[str, float]]] = {}
    for row in measured.rows(batch=batch):
        found.setdefault(row.threads, {})[row.name] = relative(row)
    return dict(sorted(found.items()))


def draw(data: Mapping[int, Mapping[str, Mapping[str, float]]], title: str, path: Path) -> None:
    """Write the bars to an SVG file, the same bytes for the same data."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "cuvil", "svg.fonttype": "none"})
    from matplotlib import pyplot

    models = list(dict.fromkeys(name for panel in data.values() for name in panel))
    height = 1.2 + len(models) * (len(FAMILIES) * _BAR + _GAP)
    figure, axes = pyplot.subplots(
        1, len(data), figsize=(1.5 + 4.5 * len(data), height), sharey=True, squeeze=False
    )
    for axis, (threads, panel) in zip(axes[0], data.items()):
        _panel(axis, models, panel)
        axis.set_title(f"{threads} thread{'s' if threads > 1 else ''}", fontsize=10)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(rect=(0, 0.4 / height, 1, 1 - 0.1 / height))
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _panel(axis: Any, models: Sequence[str], panel: Mapping[str, Mapping[str, float]]) -> None:
    step = 1 / (len(FAMILIES) + _GAP / _BAR)
    for i, (family, colour) in enumerate(zip(FAMILIES, COLOURS)):
        places = [m + (i - (len(FAMILIES) - 1) / 2) * step for m in range(len(models))]
        values = [panel.get(name, {}).get(family) for name in models]
        shown = [(y, v) for y, v in zip(places, values) if v is not None]
        bars = axis.barh(
            [y for y, _ in shown], [v - 1 for _, v in shown], step * 0.9, left=1,
            color=colour, label=family,
        )  # fmt: skip
        texts = [f"{v:.2f}" if v < 10 else f"{v:.0f}" for _, v in shown]
        axis.bar_label(bars, texts, fontsize=6, padding=2)
    axis.set_xscale("log")
    _scale(axis, [v for values in panel.values() for v in values.values()])
    axis.axvline(1, color="black", linewidth=1)
    axis.set_yticks(range(len(models)), models)
    axis.set_ylim(len(models) - 0.5, -0.5)
    axis.set_xlabel("time / cuvil's time")
    axis.grid(axis="x", which="both", linewidth=0.3, alpha=0.6)
    axis.set_axisbelow(True)


def _scale(axis: Any, values: Sequence[float]) -> None:
    low, high = min([0.8, *values]), max([2.0, *values])
    axis.set_xlim(low / 1.3, high * 1.5)
    marks = [m for m in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128) if low / 1.3 <= m <= high * 1.5]
    axis.set_xticks(marks, [f"{m:g}" for m in marks])
    axis.minorticks_off()


def main() -> None:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", nargs="?", type=Path, default=MEASURED, metavar="JSON")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "latency.svg")
    given = parser.parse_args()
    measured = read(given.json)
    data = panels(measured, given.batch)
    if not data:
        parser.error(f"{given.json} has nothing of batch {given.batch}")
    title = f"Latency at batch {given.batch} on {measured.machine.get('cpu', 'this machine')}"
    draw(data, title, given.output)
    print(given.output)


if __name__ == "__main__":
    main()
