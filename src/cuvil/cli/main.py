"""The command line: one file a verb, put together here."""

from __future__ import annotations

from typing import Annotated

import typer

from cuvil.cli import bench, cache, compile, demo, inspect, ops, run, targets, verify
from cuvil.cli.verb import Verbs
from cuvil.version import __version__

_HELP = """Cuvil compiles AI models to small native artifacts that need nothing at run time.

Exit codes: 0 done, 1 the check failed, 2 wrong use, 3 the model or artifact can't be handled.
Every verb takes --json (one document on stdout), --verbose and --debug.
"""

# Help is no markup: dims in brackets would be taken for styles.
app = typer.Typer(
    cls=Verbs,
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 100},
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
app.command("verify", short_help="Compare with the model over a spread of shapes.")(verify.verify)
app.command("bench", short_help="Measure an artifact or model beside other runtimes.")(bench.bench)
app.command("inspect", short_help="Describe an artifact; print a model's intermediate forms.")(
    inspect.inspect
)
app.command("ops", short_help="List a model's operators, and how each will be run.")(ops.ops)
app.command("targets")(targets.targets)
app.add_typer(cache.app, name="cache")
app.add_typer(demo.app, name="demo")
