"""The command line: one file a verb, put together here."""

from __future__ import annotations

from typing import Annotated

import typer

from cuvil.cli import bench, cache, compile, inspect, ops, run, targets, verify
from cuvil.version import __version__

_HELP = """Cuvil compiles AI models to small native artifacts that need nothing at run time.

Exit codes: 0 done, 1 the check failed, 2 wrong use, 3 the model or artifact can't be handled.
Every verb takes --json (one document on stdout), --verbose and --debug.
"""

app = typer.Typer(
    help=_HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def cuvil(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """See _HELP."""


app.command("compile")(compile.compile)
app.command("run")(run.run)
app.command("verify")(verify.verify)
app.command("bench")(bench.bench)
app.command("inspect")(inspect.inspect)
app.command("ops")(ops.ops)
app.command("targets")(targets.targets)
app.add_typer(cache.app, name="cache")
