"""cuvil bench: an artifact or model beside other runtimes."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import RenderableType

from cuvil.api.compiler import Compiler
from cuvil.cli.models import is_artifact, made_up_inputs, request_of, runnable, sizes_note
from cuvil.cli.parameters import EitherArgument, ModelOptions
from cuvil.cli.profiles import KernelOptions, check_trace, shown_profile, write_trace
from cuvil.cli.progress import StageProgress
from cuvil.cli.text import bytes_text, milliseconds, table
from cuvil.cli.verb import DONE, Outcome, verb
from cuvil.errors import InputError
from cuvil.integrations.bench.compare import Comparison, benchmark
from cuvil.integrations.bench.peers import PEERS
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.loader import load
from cuvil.runtime.profile import Profile

_DEFAULT = ("torch", "onnxruntime")


@verb
def bench(
    subject: EitherArgument,
    options: ModelOptions,
    kernels: KernelOptions,
    source: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The model an ARTIFACT came from.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PEERS",
            help=f"Of {', '.join(n for n in PEERS if n != 'cuvil')}, with commas; all; or none. "
            f"Default: {','.join(_DEFAULT)} for a MODEL.",
        ),
    ] = None,
    threads: Annotated[str, typer.Option(metavar="1,2", help="Threads for everyone.")] = "1",
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="N=8,..", help="Sizes of symbolic dims. May be repeated."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time for each peer and case.")] = 2.0,
    no_deployment: Annotated[
        bool, typer.Option("--no-deployment", help="Skip load time, memory and size.")
    ] = False,
) -> Outcome:
    """Measure latency in turns with other runtimes, accuracy, load time, memory and size on disk.

    Threads are the same for all. A PyTorch model is exported to ONNX for those who need it.

    Examples:

      cuvil bench net.onnx --against onnxruntime,openvino --threads 1,2

      cuvil bench mypkg.nets:make --shape x:i64[batch,seq] --at batch=1,seq=128 --against all

      cuvil bench net.cuvilpkg --at batch=8

      cuvil bench net.onnx --against none --per-kernel --trace net.json
    """
    check_trace(kernels.trace, kernels.per_kernel, "--per-kernel")
    counts = _counts(threads)
    peers = _peers(against, not is_artifact(subject) or source is not None)
    with StageProgress("bench", 12) as progress:
        artifact = _artifact(subject, source, options, progress)
        signature = artifact.manifest.signature
        cases = [made_up_inputs(signature, sizes, artifact.source) for sizes in at or [""]]
        found = benchmark(
            artifact, peers, counts, cases, seconds, not no_deployment, progress.note
        )
        asked = zip(at or [""], cases, strict=True)
        notes = [line for sizes, case in asked for line in sizes_note(signature, sizes, case)]
        compared = Outcome(found.as_dict(), (*_shown(found), *notes), DONE)
        if not kernels.per_kernel:
            return compared
        progress.note("timing each kernel")
        artifact = _artifact(subject, source, options, progress, counts[0])
        profiles = [artifact.profile(inputs, seconds=seconds) for inputs in cases]
    return _with_profiles(compared, profiles, write_trace(kernels.trace, profiles[0]))


def _with_profiles(compared: Outcome, profiles: list[Profile], notes: list[str]) -> Outcome:
    parts: list[RenderableType] = []
    for profile in profiles:
        parts += ["", *shown_profile(profile)]
    document = {**compared.document, "per_kernel": [p.as_dict() for p in profiles]}
    return Outcome(document, (*compared.shown, *parts, *notes), DONE)


def _artifact(
    subject: str,
    source: str | None,
    options: ModelOptions,
    progress: StageProgress,
    threads: int | None = None,
) -> Artifact:
    if not is_artifact(subject):
        return runnable(Compiler(request_of(subject, options, threads), progress=progress).run())
    artifact = load(subject, threads)
    if source is not None:
        artifact.source = Compiler(request_of(source, options), progress=progress).capture()
    return artifact


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(p.strip().isdigit() and int(p) > 0 for p in parts):
        raise InputError(f"cannot read the threads {text!r}", hint="write 1,2")
    return [int(p) for p in parts]


def _peers(text: str | None, has_model: bool) -> list[str]:
    if text is None:
        return list(_DEFAULT) if has_model else []
    if text == "all":
        return list(PEERS)
    return [] if text == "none" else [name.strip() for name in text.split(",")]


def _shown(found: Comparison) -> tuple[RenderableType, ...]:
    rows: list[list[Any]] = []
    for x in found.latencies:
        head = [x.peer, x.threads, x.inputs]
        if x.times is None:
            rows.append([*head, "", "", "", "", f"not available: {x.missing}"])
            continue
        times = [milliseconds(t) for t in (x.times.min, x.times.median, x.times.p90)]
        rows.append([*head, *times, "" if x.error is None else f"{x.error:.1e}", ""])
    headers = ["peer", ">threads", "inputs", ">min", ">median", ">p90", ">error", ""]
    shown: list[RenderableType] = [table(headers, rows)]
    if found.source:
        shown.append(f"error: the largest, of output scale, against {found.source}")
    if found.deployments:
        rows = [
            [
                d.peer,
                "" if d.load is None else f"{d.load:.2f} s",
                *("" if b is None else bytes_text(b) for b in (d.peak, d.model_bytes)),
                "" if d.runtime_bytes is None else bytes_text(d.runtime_bytes),
                f"not available: {d.missing}" if d.missing else "",
            ]
            for d in found.deployments
        ]
        headers = ["peer", ">load", ">peak memory", ">model file", ">runtime installed", ""]
        shown += ["", table(headers, rows), "load: a new process, from imports to the first output"]
    return tuple(shown)
