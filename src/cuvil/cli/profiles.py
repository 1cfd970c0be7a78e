"""Profiles of kernels as the verbs show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from cuvil.cli.text import table
from cuvil.errors import InputError
from cuvil.runtime.profile import HEADERS, Profile

TraceOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json",
        help="Write the profiled call as Chrome-trace JSON, for ui.perfetto.dev or "
        "chrome://tracing.",
    ),
]


@dataclass(frozen=True)
class KernelOptions:
    """What a bench says of kernels."""

    per_kernel: Annotated[
        bool,
        typer.Option(
            "--per-kernel",
            help="Time each kernel too, and hold it against what this machine can do.",
        ),
    ] = False
    trace: TraceOption = None


def check_trace(trace: Path | None, profiled: bool, needs: str) -> None:
    """Raise InputError for a file that can't be written, or that nothing would be written to."""
    if trace is None:
        return
    if not profiled:
        raise InputError("--trace writes what is profiled", hint=f"give {needs} too")
    if not trace.parent.is_dir():
        raise InputError(f"cannot write {trace}: there is no folder {trace.parent}")


def shown_profile(profile: Profile) -> list[RenderableType]:
    """Every kernel, the slowest first."""
    return [*profile.summary(), "", table(HEADERS, profile.rows())]


def write_trace(trace: Path | None, profile: Profile) -> list[str]:
    """Write the file, if one is asked for; a line that says so."""
    if trace is None:
        return []
    write_json(trace, profile.trace())
    return [f"{trace}: open it in ui.perfetto.dev or chrome://tracing"]


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write one JSON document."""
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")
