"""cuvil verify: an artifact or a fresh build against its model."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from rich.console import RenderableType

from cuvil.api.compiler import Compiler
from cuvil.api.request import CompileRequest
from cuvil.api.verification import bisect_artifact, verify_artifact
from cuvil.cli.models import (
    artifact_path,
    is_artifact,
    made_up_inputs,
    read_inputs,
    request_of,
)
from cuvil.cli.parameters import (
    AtolOption,
    EitherArgument,
    InputOption,
    ModelOptions,
    RtolOption,
    SizesOption,
)
from cuvil.cli.progress import StageProgress
from cuvil.cli.text import table
from cuvil.cli.verb import DONE, FAILED, Outcome, verb
from cuvil.errors import InputError
from cuvil.runners.built import Built, load_or_run
from cuvil.runtime.artifact import Artifact
from cuvil.verify.bisect import Culprit
from cuvil.verify.report import LayerError, Report

SourceOption = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="The model that an ARTIFACT is compared with."),
]


@verb
def verify(
    subject: EitherArgument,
    options: ModelOptions,
    source: SourceOption = None,
    layerwise: Annotated[
        bool,
        typer.Option(
            "--layerwise",
            help="Compare every kernel with the reference, on the inputs it really gets.",
        ),
    ] = False,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="If wrong, find the first rewrite that makes it so.")
    ] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Compare which way branches and loops go.")
    ] = False,
    inputs: InputOption = None,
    at: SizesOption = "",
    atol: AtolOption = None,
    rtol: RtolOption = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: all cores.")] = None,
) -> Outcome:
    """Compare with the model over a spread of shapes (or on given inputs); exit code 1 if wrong.

    An ARTIFACT without --source has its checksums tested and is run once.

    Examples:

      cuvil verify net.onnx --layerwise

      cuvil verify net.cuvilpkg --source net.onnx

      cuvil verify loops.onnx --paths

      cuvil verify mypkg.nets:make --shape x:1x16 --bisect
    """
    if is_artifact(subject) and source is None:
        if layerwise or bisect or paths:
            raise InputError("an artifact alone can't be compared", hint="give --source MODEL")
        return _alone(load_or_run(artifact_path(subject), threads), at)
    request = request_of(source or subject, options, threads, verify=False, like=subject)
    with StageProgress("verify") as progress:
        artifact = _artifact(subject, request, progress)
        given = None
        if inputs or at:
            signature = artifact.manifest.signature
            given = read_inputs(inputs or ["random"], at, signature, artifact.source)
        report = verify_artifact(artifact, given, atol, rtol, layerwise, paths)
        culprit = None
        if bisect and not report.passed:
            culprit = bisect_artifact(artifact, given, atol, rtol)
    document = report.as_dict()
    lines: list[RenderableType] = [str(report)]
    if layerwise:
        lines.append(_layers(report))
    if bisect:
        lines.append(_bisected(report, culprit))
        document["culprit"] = None if culprit is None else vars(culprit)
    return Outcome(document, tuple(lines), DONE if report.passed else FAILED)


def _bisected(report: Report, culprit: Culprit | None) -> str:
    return "nothing to bisect: the result is right" if report.passed else str(culprit)


def _artifact(
    subject: str, request: CompileRequest, progress: StageProgress
) -> Artifact | Built:
    """What to check, with its source: a fresh build, or the artifact beside its model."""
    compiler = Compiler(replace(request, cache=False), progress=progress)
    if not is_artifact(subject):
        return compiler.run()
    artifact = load_or_run(artifact_path(subject), request.threads)
    artifact.source = compiler.capture()
    names = artifact.source.module.main.input_names
    if names != [spec.name for spec in artifact.native.inputs]:
        raise InputError(
            f"the artifact's inputs are not the model's, which are {', '.join(names)}",
            hint="give the model it was compiled from, with the same options",
        )
    return artifact


def _alone(artifact: Artifact | Built, at: str) -> Outcome:
    outputs = artifact.native.run(made_up_inputs(artifact.manifest.signature, at))
    shapes = {name: list(value.shape) for name, value in outputs.items()}
    note = "not compared with a model: give --source MODEL"
    text = f"intact; it runs: {', '.join(f'{n}{s}' for n, s in shapes.items())} ({note})"
    return Outcome({"passed": True, "intact": True, "compared": False, "outputs": shapes}, (text,))


def _layers(report: Report) -> RenderableType:
    def row(layer: LayerError) -> list[object]:
        mark = "ok" if layer.passed else "WRONG"
        return [layer.kernel, mark, f"{layer.error.scaled:.1e}", layer.name, layer.place]

    return table([">kernel", "", ">error", "name", "from"], [row(x) for x in report.layers])
