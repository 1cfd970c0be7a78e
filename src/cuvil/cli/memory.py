"""What a model in C needs of a microcontroller: options of compiling, and a line that tells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from cuvil.api.request import CompileRequest
from cuvil.cli.text import bytes_text
from cuvil.package.manifest import Manifest


@dataclass(frozen=True)
class Embedded:
    """What a program that a model becomes part of has for it: memory, and a name."""

    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the model is called, instead of its own name; in C all names begin with it.",
        ),
    ] = None
    ram: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Of the target c: intermediates must fit so much, such as 64k; else it is an "
            "error that names the largest.",
        ),
    ] = None
    flash: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="The same of weights and code, as built for a Cortex-M4."
        ),
    ] = None

    def applied(self, request: CompileRequest) -> CompileRequest:
        """The request with these options."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return replace(request, options={**request.options, **given}) if given else request


def memory_of(manifest: Manifest) -> dict[str, Any]:
    """Bytes of ``ram``, ``stack``, ``flash``, ``weights`` and ``code``; empty where there is no
    such thing."""
    found = manifest.extra.get("memory", {})
    return {k: found[k] for k in ("ram", "stack", "flash", "weights", "code") if k in found}


def memory_line(memory: dict[str, Any]) -> str:
    """One line of it."""
    sizes = {name: bytes_text(size) for name, size in memory.items()}
    stack = f", stack {sizes['stack']}" if "stack" in sizes else ""
    return (
        f"RAM {sizes['ram']} for intermediates{stack}; flash {sizes['flash']}: weights "
        f"{sizes['weights']}, code {sizes['code']} (Cortex-M4, -Os)"
    )
