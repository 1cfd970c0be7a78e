"""cuvil cache: the finished artifacts kept for the next time."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from cuvil.build.cache import Cache
from cuvil.cli.text import bytes_text, table
from cuvil.cli.verb import Outcome, verb
from cuvil.errors import ArtifactError
from cuvil.options import Options
from cuvil.package.format import open_package

app = typer.Typer(help="List or empty the compile cache.", no_args_is_help=True)


def _cache() -> Cache:
    return Cache(Options.from_environment().cache_dir)


@app.command("ls")
@verb
def ls() -> Outcome:
    """List the cached artifacts, the most recently used first."""
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
    total = sum(int(str(e["bytes"])) for e in entries)
    document = {"folder": str(cache.root), "bytes": total, "entries": entries}
    foot = f"{len(entries)} artifacts, {bytes_text(total)} in {cache.root}"
    shown = (table(["key", "model", ">size", "last used"], rows), foot) if entries else (foot,)
    return Outcome(document, shown)


@app.command("clear")
@verb
def clear() -> Outcome:
    """Remove all cached artifacts and compiled objects."""
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
