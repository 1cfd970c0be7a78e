"""cuvil compile: a model to an artifact."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from cuvil.api.compiler import Compiler
from cuvil.api.several import ALL, SeveralCompiler, compiler_for
from cuvil.cli.memory import Embedded, memory_line, memory_of
from cuvil.cli.models import need_no_folder, request_of, targets_of
from cuvil.cli.parameters import ModelArgument, ModelOptions
from cuvil.cli.progress import StageProgress
from cuvil.cli.text import bytes_text, public_signature, signature_text, table
from cuvil.cli.verb import Outcome, verb
from cuvil.errors import InputError, TargetError
from cuvil.errors.words import counted
from cuvil.passes.knobs import choice_text
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.profile import time_text
from cuvil.runtime.save import FORMS, PACKAGE, forms_of, target_of_form
from cuvil.target.registry import find_target, target_beside
from cuvil.tune.table import read_table
from cuvil.verify.report import NOT_VERIFIED

_WHERE = f"Where to: {', '.join(FORMS)}; default: a .cuvilpkg of the model's name, here."


@verb
def compile(
    model: ModelArgument,
    options: ModelOptions,
    embedded: Embedded,
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", help=_WHERE),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to verify with; default: all cores.")
    ] = None,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Don't compare the result with the model.")
    ] = False,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the compile's time went, and the model's: FILE.html is a page with a heat "
            "map of the kernels, FILE.json a Chrome trace. Builds anew.",
        ),
    ] = None,
    instrument: Annotated[
        bool,
        typer.Option(
            "--instrument",
            help="Build with a clock around each kernel, for `cuvil inspect OUT --profile`.",
        ),
    ] = False,
) -> Outcome:
    """Compile a model, check the result against it, and write it to a file.

    Examples:

      cuvil compile net.onnx -o net.cuvilpkg

      cuvil compile encoder.pt2 --dynamic ids:1=seq:1..512

      cuvil compile mypkg.nets:make --shape x:f32[batch,3,224,224] -o net.so

      cuvil compile net.onnx --profile net.html

      cuvil compile net.onnx --tune 30

      cuvil compile net.onnx --target x86_64_v3,aarch64

      cuvil compile net.onnx -o net.c --ram 64k --flash 256k
    """
    place = out or Path(re.split(r"[/:.]", _stem(model))[-1] + ".cuvilpkg")
    options = _checked(model, place, options)
    target = targets_of(options.target)
    alone = replace(options, target="native") if _several(target, place) else options
    with StageProgress("compile") as progress:
        request = embedded.applied(request_of(model, alone, threads, not no_verify))
        request = replace(request, profile=None if profile is None else os.fspath(profile))
        if instrument:
            request = replace(request, options={**request.options, "profile": True})
        compiler = compiler_for(request, target, progress)
        artifact = compiler.run()
    return _outcome(compiler, artifact, artifact.save(place), no_verify, profile)


def _several(target: str | list[str], place: Path) -> bool:
    """Whether several targets are asked for. Raises InputError for a place that holds one, and for
    a place whose form is another target's."""
    if isinstance(target, str) and target != ALL:
        _check_form(target, place)
        return False
    if place.suffix != PACKAGE:
        raise InputError(f"{place} is for one target", hint=f"end it in {PACKAGE}")
    return True


def _check_form(target: str, place: Path) -> None:
    """Raise InputError for a place whose form is another target's."""
    forms = forms_of(find_target(target).kind)
    if place.suffix in forms:
        return
    said = f"cannot write {place}: {place.suffix} is no form of the target {target}"
    try:
        fitting = target_beside(target, target_of_form(place.suffix) or "native")
    except TargetError as error:
        raise InputError(f"{said}: {error.message}", hint=error.hint) from None
    raise InputError(
        said, hint=f"its forms are {', '.join(forms)}; for {place.suffix} give --target {fitting}"
    )


def _checked(model: str, place: Path, options: ModelOptions) -> ModelOptions:
    """The options with the target that the form of ``place`` implies. Raises InputError for a
    model that is a folder, a place that can't be written to, or a form that there isn't."""
    need_no_folder(model)
    if place.is_dir():
        raise InputError(f"cannot write {place}: it is a folder", hint="give a file's name")
    if place.suffix not in FORMS:
        raise InputError(
            f"there is no form {place.suffix!r}", hint=f"the forms are {', '.join(FORMS)}"
        )
    if not place.parent.is_dir():
        raise InputError(f"cannot write {place}: there is no folder {place.parent}")
    implied = target_of_form(place.suffix)
    return replace(options, target=implied) if implied and options.target == "native" else options


def _outcome(
    compiler: Compiler | SeveralCompiler,
    artifact: Artifact | Built,
    files: list[Path],
    no_verify: bool,
    profile: Path | None,
) -> Outcome:
    manifest = artifact.manifest
    seconds = compiler.stages.seconds
    report = compiler.report
    size = sum(file.stat().st_size for file in files)
    verified = "not verified" if no_verify else "from the cache"
    if report is not None:
        shapes = counted(len(report.cases), "shape")
        verified = f"largest error {report.max_scaled:.1e} over {shapes}"
        if not report.compared:
            verified = NOT_VERIFIED
    kernels = len(manifest.extra.get("kernels", ()))
    document = {
        "files": [os.fspath(file) for file in files],
        "bytes": size,
        "signature": signature_text(public_signature(manifest)),
        "target": manifest.target,
        "kernels": kernels,
        "from_cache": "build" not in seconds,
        "verified": None if report is None else report.as_dict(),
        "seconds": seconds,
    }
    memory = memory_of(manifest)
    document |= memory and {"memory": memory}
    if artifact.tuning is not None:
        document["tuning"] = artifact.tuning
    what = f"{bytes_text(size)}, {counted(kernels, 'kernel')}"
    where = ", ".join(map(str, files))
    shown: list[RenderableType] = [
        signature_text(public_signature(manifest)),
        f"{where}: {what}; {verified}; {sum(seconds.values()):.1f} s",
    ]
    shown += [memory_line(memory)] if memory else []
    if artifact.tuning is not None:
        shown += ["", *_tuned(artifact.tuning)]
    if isinstance(compiler, SeveralCompiler):
        document |= {"targets": list(compiler.held), "left_out": compiler.left_out}
        shown.append(f"for {', '.join(compiler.held)}")
        shown += [f"left out {name}: {why}" for name, why in compiler.left_out.items()]
    if profile is not None:
        document["profile"] = os.fspath(profile)
        rows = [(name, f"{value:.3f}") for name, value in seconds.items()]
        stages = table(["stage", ">seconds"], rows)
        return Outcome(document, (*shown, "", stages, f"{profile}: the profile"))
    return Outcome(document, tuple(shown))


def _tuned(tuning: Mapping[str, Any]) -> list[RenderableType]:
    """What tuning chose, and the time of one call before and after."""
    rows, before, after = [], 0.0, 0.0
    for found in read_table(tuning).kernels:
        chosen = choice_text(found.choice)
        old, new = found.seconds.get("default"), found.seconds.get(chosen)
        if old is None or new is None:
            continue
        before, after = before + old * found.count, after + new * found.count
        if found.choice:
            cells = (found.name, str(found.count), time_text(old), time_text(new), chosen)
            rows.append((*cells, found.where))
    if not before:
        return ["none of the model's kernels was measured"]
    sums = f"the measured kernels took {time_text(before)}, and take {time_text(after)}"
    heads = ["kernel", ">calls", ">computed", ">tuned", "choice", "from"]
    return [table(heads, rows), sums] if rows else [f"tuning found nothing better; {sums}"]


def _stem(model: str) -> str:
    return Path(model).stem if os.path.exists(model) else model
