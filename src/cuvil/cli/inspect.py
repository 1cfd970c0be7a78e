"""cuvil inspect: what an artifact holds, or a model at a stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from cuvil.api.compiler import Compiler
from cuvil.api.views import STAGES, refusals, stage_text
from cuvil.cli.bundles import bundle_outcome
from cuvil.cli.models import (
    artifact_path,
    is_artifact,
    made_up_inputs,
    request_of,
    runnable,
    sizes_note,
)
from cuvil.cli.parameters import EitherArgument, ModelOptions, SizesOption
from cuvil.cli.profiles import TraceOption, check_trace, shown_profile, write_trace
from cuvil.cli.progress import StageProgress
from cuvil.cli.text import bytes_text, facts, public_signature, signature_text, table
from cuvil.cli.variants import dispatch_table
from cuvil.cli.verb import Outcome, verb
from cuvil.cli.workspace import planned_memory, shown_memory
from cuvil.errors import InputError
from cuvil.errors.words import counted
from cuvil.package.bundle import held_packages
from cuvil.package.format import Package, open_package
from cuvil.package.manifest import Manifest
from cuvil.runtime.loader import load
from cuvil.tune.table import read_table


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
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Run it on made-up inputs and show each kernel's time, operations, bytes, and "
            "share of what this machine can do. An ARTIFACT must be compiled with --instrument.",
        ),
    ] = False,
    at: SizesOption = "",
    threads: Annotated[
        int, typer.Option(min=1, help="Threads to profile with, and of the workspace shown.")
    ] = 1,
    trace: TraceOption = None,
) -> Outcome:
    """Describe an artifact, without running its code unless --profile is given; or print a
    model's intermediate forms.

    Examples:

      cuvil inspect net.cuvilpkg

      cuvil inspect net.cuvilpkg --at batch=64

      cuvil inspect net.onnx --ir fused

      cuvil inspect net.onnx --ir dot | dot -Tsvg > net.svg

      cuvil inspect net.onnx --why-not merge-transposes

      cuvil inspect net.onnx --profile --at batch=8 --trace net.json
    """
    check_trace(trace, profile, "--profile")
    if profile:
        return _profile(subject, options, at, threads, trace)
    if is_artifact(subject):
        if ir is not None or why_not is not None:
            raise InputError("an artifact has no stages", hint="inspect the MODEL it came from")
        with_parts = open_package(artifact_path(subject))
        try:
            return _artifact(with_parts, at, threads)
        finally:
            with_parts.close()
    compiler = Compiler(request_of(subject, options))
    if why_not is not None:
        return _refusals(compiler, why_not)
    stage = ir or "canonical"
    text = stage_text(compiler, stage)
    return Outcome({"stage": stage, "text": text}, (Text(text.rstrip("\n")),))


def _refusals(compiler: Compiler, rule: str) -> Outcome:
    found = refusals(compiler, rule)
    rows = [(count, reason) for reason, count in (found or {}).items()]
    none = "was never tried here" if found is None else "refused nothing"
    shown = table([">times", "refused"], rows) if rows else Text(f"{rule} {none}")
    return Outcome({"rule": rule, "tried": found is not None, "refusals": found or {}}, (shown,))


def _profile(
    subject: str, options: ModelOptions, at: str, threads: int, trace: Path | None
) -> Outcome:
    with StageProgress("profile", 12) as progress:
        if is_artifact(subject):
            artifact = load(artifact_path(subject), threads)
        else:
            compiler = Compiler(request_of(subject, options, threads), progress=progress)
            artifact = runnable(compiler.run())
        inputs = made_up_inputs(artifact.manifest.signature, at, artifact.source)
        progress.note("timing each kernel")
        found = artifact.profile(inputs)
    notes = sizes_note(artifact.manifest.signature, at, inputs)
    return Outcome(found.as_dict(), (*shown_profile(found), *notes, *write_trace(trace, found)))


def _machines(manifest: Manifest) -> list[tuple[str, str]]:
    """The least kernel of the system, and the code that is chosen from at load."""
    kernel, variants = manifest.extra.get("min_kernel"), manifest.extra.get("variants", ())
    rows = [("system", f"Linux {kernel} or later, any libc")] if kernel else []
    if variants:
        names = [
            v["name"] + (f" ({v['vector_bits']}-bit vectors)" if v["vector_bits"] else "")
            for v in variants
        ]
        rows.append(("variants", f"{', '.join(names)}: the first that the CPU runs"))
    return rows


def _artifact(package: Package, at: str, threads: int) -> Outcome:
    held = held_packages(package)
    if held:
        return bundle_outcome(package, held, at, threads)
    return _one(package, at, threads)


def _one(package: Package, at: str, threads: int) -> Outcome:
    manifest = package.manifest
    memory = planned_memory(manifest, at, threads)
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
        "memory": memory,
        "kernels": kernels,
    }
    where = facts(manifest.signature)
    rows = [
        ("name", manifest.name),
        ("target", ", ".join(filter(None, (manifest.target, manifest.cpu)))),
        ("precision", str(manifest.extra.get("precision", "f32"))),
        ("CPU features", " ".join(manifest.cpu_features) or "baseline"),
        *_machines(manifest),
        ("source", ", ".join(f"{k} {v}" for k, v in manifest.source.items() if v)),
        ("written by", f"cuvil {manifest.cuvil_version}, format {manifest.format_version}"),
        *[(f"{name} size", bytes_text(size)) for name, size in sizes.items()],
        ("kernels", f"{len(kernels)}: {', '.join(k.removeprefix('k_') for k in kernels)}"),
    ]
    if "tuning" in manifest.extra:
        tuning = read_table(manifest.extra["tuning"])
        changed = f"{len(tuning.choices)} of {len(tuning.kernels)} kernels changed"
        where_tuned = f"{tuning.cpu} with {counted(tuning.threads, 'thread')}"
        rows.append(("tuned", f"{changed}, on {where_tuned}"))
    shown: list[RenderableType] = [Text(signature_text(public_signature(manifest)))]
    if where:
        shown.append(Text("where " + "\n      ".join(where)))
    shown += ["", table(["", ""], rows), *shown_memory(manifest, memory)]
    return Outcome(document, (*shown, *dispatch_table(manifest)))
