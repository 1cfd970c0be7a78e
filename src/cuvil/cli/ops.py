"""cuvil ops: a model's operators, and how each will be run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from cuvil.api.compiler import Compiler
from cuvil.api.views import operators
from cuvil.cli.models import request_of
from cuvil.cli.parameters import ModelArgument, ModelOptions
from cuvil.cli.text import table
from cuvil.cli.verb import DONE, UNFIT, Outcome, verb
from cuvil.errors.words import counted


@verb
def ops(
    model: ModelArgument,
    options: ModelOptions,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also write it there as JSON."),
    ] = None,
) -> Outcome:
    """List a model's operators: dtypes, how often, how each is run; and what can't be, and why.

    Exit code 3 if something can't be compiled.

    Examples:

      cuvil ops net.onnx

      cuvil ops mypkg.nets:make --shape x:1x16 -o operator_registry.json
    """
    document = operators(Compiler(request_of(model, options)))
    if out is not None:
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    shown: list[RenderableType] = []
    if document["operators"]:
        rows = [_row(entry) for entry in document["operators"]]
        shown.append(table(["operator", ">count", "dtypes", "from", "how it is run"], rows))
        shown.append(f"\n{counted(len(document['kernels']), 'kernel')}")
    if document["unsupported"]:
        headers = ["unsupported", "dtype", "where", "why", "what to do"]
        keys = ("op", "dtype", "where", "reason", "hint")
        shown += ["", table(headers, [[n[k] for k in keys] for n in document["unsupported"]])]
    return Outcome(document, tuple(shown), DONE if document["supported"] else UNFIT)


def _row(entry: dict[str, Any]) -> list[object]:
    return [
        entry["op"],
        entry["count"],
        " ".join(entry["dtypes"]),
        " ".join(entry["source"]),
        ", ".join(f"{how} ({count})" for how, count in entry["how"].items()),
    ]
