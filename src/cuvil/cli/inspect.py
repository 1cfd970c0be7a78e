"""cuvil inspect: what an artifact holds, or a model at a stage."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from cuvil.api.compiler import STAGES, Compiler
from cuvil.cli.models import artifact_path, is_artifact, request_of
from cuvil.cli.parameters import EitherArgument, ModelOptions
from cuvil.cli.text import bytes_text, facts, public_signature, signature_text, table
from cuvil.cli.verb import Outcome, verb
from cuvil.errors import InputError
from cuvil.package.format import Package, open_package


@verb
def inspect(
    subject: EitherArgument,
    options: ModelOptions,
    ir: Annotated[
        str | None,
        typer.Option("--ir", metavar="STAGE", help=f"Print a MODEL's stage: {', '.join(STAGES)}."),
    ] = None,
    why_not: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Print why a rewrite rule did not fire on a MODEL."),
    ] = None,
) -> Outcome:
    """Describe an artifact, without running its code; or print a model's intermediate forms.

    Examples:

      cuvil inspect net.cuvilpkg

      cuvil inspect net.onnx --ir fused

      cuvil inspect net.onnx --ir dot | dot -Tsvg > net.svg

      cuvil inspect net.onnx --why-not merge-transposes
    """
    if is_artifact(subject):
        if ir is not None or why_not is not None:
            raise InputError("an artifact has no stages", hint="inspect the MODEL it came from")
        with_parts = open_package(artifact_path(subject))
        try:
            return _artifact(with_parts)
        finally:
            with_parts.close()
    compiler = Compiler(request_of(subject, options))
    if why_not is not None:
        found = compiler.refusals(why_not)
        rows = [(count, reason) for reason, count in (found or {}).items()]
        none = "was never tried here" if found is None else "refused nothing"
        shown = table([">times", "refused"], rows) if rows else Text(f"{why_not} {none}")
        document = {"rule": why_not, "tried": found is not None, "refusals": found or {}}
        return Outcome(document, (shown,))
    stage = ir or "canonical"
    text = compiler.text(stage)
    return Outcome({"stage": stage, "text": text}, (Text(text.rstrip("\n")),))


def _artifact(package: Package) -> Outcome:
    manifest = package.manifest
    sizes = {
        "library": len(package.library),
        "weights": manifest.weights_bytes,
        **{name: len(data) for name, data in package.parts.items()},
        "file": package.path.stat().st_size,
    }
    kernels = list(manifest.extra.get("kernels", ()))
    document = {
        **json.loads(manifest.to_json()),
        "type": signature_text(public_signature(manifest)),
        "sizes": sizes,
        "kernels": kernels,
    }
    where = facts(manifest.signature)
    rows = [
        ("name", manifest.name),
        ("target", f"{manifest.target}, {manifest.cpu}"),
        ("CPU features", " ".join(manifest.cpu_features) or "baseline"),
        ("source", ", ".join(f"{k} {v}" for k, v in manifest.source.items() if v)),
        ("written by", f"cuvil {manifest.cuvil_version}, format {manifest.format_version}"),
        *[(f"{name} size", bytes_text(size)) for name, size in sizes.items()],
        ("kernels", f"{len(kernels)}: {', '.join(k.removeprefix('k_') for k in kernels)}"),
    ]
    shown: list[RenderableType] = [Text(signature_text(public_signature(manifest)))]
    if where:
        shown.append(Text("where " + "\n      ".join(where)))
    return Outcome(document, (*shown, "", table(["", ""], rows)))
