"""Writes a compilation's profile: a page, the heat map alone, or a trace."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.api.picture.collect import Made, nodes_of
from cuvil.api.picture.heat_map import heat_map
from cuvil.api.picture.svg import style
from cuvil.api.picture.timeline import compile_trace, timeline
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.chrome_trace import Slice
from cuvil.runtime.profile import Profile, time_text
from cuvil.verify.inputs import make_inputs, spread_of_sizes
from cuvil.verify.ranges import integer_limits

log = logging.getLogger("cuvil")

_PAGE_STYLE = (
    "body{font:14px/1.45 system-ui,sans-serif;margin:24px;background:var(--page);"
    "color:var(--ink)}h1{font-size:20px}h2{font-size:16px;margin-top:28px}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:2px 14px 2px 0;text-align:left;vertical-align:top}"
    "td.n,th.n{text-align:right}th{color:var(--soft);font-weight:400}.soft{color:var(--soft)}"
    "summary{cursor:pointer}"
)
_REASONS = 30


def write_picture(
    path: Path, made: Made, artifact: Artifact | Built, slices: Sequence[Slice]
) -> None:
    """Write ``path`` by its suffix: .html, .svg or .json. Kernels are timed on made-up inputs of
    the example's sizes, except for another machine's, which are shown by their operations."""
    name = made.module.name
    if path.suffix == ".json":
        path.write_text(json.dumps(compile_trace(name, slices)) + "\n", encoding="utf-8")
        return
    profile = None if isinstance(artifact, Built) else _profile(artifact)
    title = f"{name}: {len(made.calls)} kernels"
    if profile is not None:
        title += f", {time_text(profile.seconds)} a call at {profile.inputs}"
    else:
        title += ", not timed (for another machine): heat is the share of operations"
    nodes = nodes_of(made, profile)
    if path.suffix == ".svg":
        path.write_text(heat_map(nodes, title, alone=True), encoding="utf-8")
        return
    page = _page(title, made, profile, slices, heat_map(nodes, title))
    path.write_text(page, encoding="utf-8")


def _profile(artifact: Artifact) -> Profile:
    signature = artifact.manifest.signature
    source = artifact.source
    sizes = spread_of_sizes(signature, source.examples)[0]
    limits = integer_limits(source.module)
    rng = np.random.default_rng(0)
    found = artifact.profile(make_inputs(signature, sizes, source.examples, rng, limits))
    log.debug("profiled for the picture: %s", found.summary()[0])
    return found


def _page(
    title: str, made: Made, profile: Profile | None, slices: Sequence[Slice], picture: str
) -> str:
    stages: dict[str, float] = {}
    for s in slices:
        if s.category == "stage":
            stages[s.name] = stages.get(s.name, 0.0) + s.end - s.begin
    lines = profile.summary() if profile is not None else []
    parts = [
        f"<h1>{escape(title)}</h1>",
        *[f'<p class="soft">{escape(line)}</p>' for line in lines],
        "<h2>Kernels</h2>",
        f'<div class="scroll">{picture}</div>',
        f"<h2>Compilation: {time_text(sum(stages.values()))}</h2>",
        f'<div class="scroll">{timeline(slices)}</div>',
        _slowest(slices),
        "<h2>Rewrite rules</h2>",
        _rules(made),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{style()}{_PAGE_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _slowest(slices: Sequence[Slice]) -> str:
    """The stages, passes and units that took longest."""
    ordered = sorted(slices, key=lambda s: s.begin - s.end)[:_REASONS]
    rows = [
        (s.category, s.name, time_text(s.end - s.begin), _facts(s.args))
        for s in ordered
    ]
    return _folded("The slowest parts", _table(("", "part", "time", ""), rows, numbers=(2,)))


def _facts(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in args.items())


def _rules(made: Made) -> str:
    trace = made.trace
    rows = [
        (name, trace.fired.get(name, 0), sum(trace.refused.get(name, {}).values()))
        for name in sorted({*trace.fired, *trace.refused})
    ]
    rows.sort(key=lambda row: (-row[1], -row[2], row[0]))
    table = _table(("rule", "fired", "refused"), rows, numbers=(1, 2))
    found = [_folded(f"{sum(trace.fired.values())} rewrites by {len(rows)} rules", table)]
    for name, _, refused in rows:
        if refused:
            reasons = trace.refused[name].most_common(_REASONS)
            more = len(trace.refused[name]) - len(reasons)
            listed = _table(("times", "why not"), [(n, r) for r, n in reasons], numbers=(0,))
            rest = f'<p class="soft">and {more} more: cuvil inspect MODEL --why-not {name}</p>'
            found.append(_folded(f"{name} refused {refused}", listed + (rest if more > 0 else "")))
    return "\n".join(found)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def _table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[int] = ()
) -> str:
    def cells(tag: str, row: Sequence[object]) -> str:
        return "".join(
            f'<{tag}{" class=n" if i in numbers else ""}>{escape(str(cell))}</{tag}>'
            for i, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in rows)
    return f"<table><tr>{cells('th', headers)}</tr>\n{body}</table>"
