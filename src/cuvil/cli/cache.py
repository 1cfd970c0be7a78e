"""cuvil cache: the finished artifacts kept for the next time."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import RenderableType

from cuvil.build.cache import Cache
from cuvil.cli.text import bytes_text, table
from cuvil.cli.verb import Outcome, verb
from cuvil.errors import ArtifactError
from cuvil.errors.words import counted
from cuvil.options import Options
from cuvil.package.format import open_package
from cuvil.passes.knobs import choice_text
from cuvil.runtime.profile import time_text
from cuvil.tune.store import Winner, WinnerStore

app = typer.Typer(help="List or empty the compile cache.", no_args_is_help=True)


def _cache() -> Cache:
    return Cache(Options.from_environment().cache_dir)


@app.command("ls")
@verb
def ls() -> Outcome:
    """List the cached artifacts, the most recently used first, and the kernels that were tuned."""
    cache = _cache()
    entries = [
        {
            "key": entry.key,
            "model": _model(entry.path),
            "bytes": entry.bytes,
            "used": entry.used,
            "path": str(entry.path),
        }
        for entry in cache.ls()
    ]
    rows = [
        (
            str(e["key"])[:12],
            e["model"],
            bytes_text(int(str(e["bytes"]))),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(e["used"])))),
        )
        for e in entries
    ]
    tuned = WinnerStore(cache.root).ls()
    total = sum(int(str(e["bytes"])) for e in entries)
    document = {
        "folder": str(cache.root),
        "bytes": total,
        "entries": entries,
        "tuned": [_winner(winner) for winner in tuned],
    }
    foot = f"{counted(len(entries), 'artifact')}, {bytes_text(total)} in {cache.root}"
    shown: list[RenderableType] = [foot]
    if entries:
        shown.insert(0, table(["key", "model", ">size", "last used"], rows))
    if tuned:
        heads = ["kernel", "name", ">threads", ">computed", ">best", "choice"]
        shown += ["", table(heads, [_winner_row(winner) for winner in tuned])]
        shown.append(f"{len(tuned)} kernels that were tuned")
    return Outcome(document, tuple(shown))


def _winner(winner: Winner) -> dict[str, Any]:
    return {**asdict(winner.found), "cpu": winner.cpu, "threads": winner.threads}


def _winner_row(winner: Winner) -> tuple[str, ...]:
    found = winner.found
    times = (found.seconds.get(key) for key in ("default", choice_text(found.choice)))
    return (
        found.kernel[:12],
        found.name,
        str(winner.threads),
        *("" if t is None else time_text(t) for t in times),
        choice_text(found.choice),
    )


@app.command("clear")
@verb
def clear() -> Outcome:
    """Remove all cached artifacts, compiled objects and what tuning found."""
    cache = _cache()
    freed = cache.clear()
    return Outcome({"freed": freed}, (f"freed {bytes_text(freed)} in {cache.root}",))


def _model(path: Path) -> str:
    try:
        package = open_package(path)
    except ArtifactError:
        return "(damaged)"
    package.close()
    return package.manifest.name
