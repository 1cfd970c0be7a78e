"""One model for several targets, in one package."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuvil.api.arguments import TARGET
from cuvil.api.c_backend import BUDGETS, takes_budgets
from cuvil.api.capture import Captured, capture
from cuvil.api.compiler import Compiler
from cuvil.api.progress import Progress, Stages
from cuvil.api.request import CompileRequest
from cuvil.api.running import running_of
from cuvil.api.source import Source
from cuvil.api.workplace import temporary_folder
from cuvil.errors import CuvilError, InputError, TargetError, VerificationError
from cuvil.package.bundle import held_packages, write_bundle
from cuvil.package.format import open_package
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.loader import best_target, load
from cuvil.target.registry import find_target, general_targets
from cuvil.verify.report import Report

log = logging.getLogger("cuvil")

ALL = "all-available"


class SeveralCompiler:
    """Compiles a request for each of several targets, as Compiler does for one.

    ``targets`` are their names; ALL stands for one of each kind and architecture, and then what
    can't be verified here, disagrees with its model, or can't be compiled for a target, is left
    out: ``left_out`` has the reasons. ``held`` are those that were built.
    """

    def __init__(
        self, request: CompileRequest, targets: Sequence[str], progress: Progress | None = None
    ) -> None:
        if not targets:
            raise InputError("no target is given", hint=f'give names, or "{ALL}"')
        if request.picture is not None:
            raise InputError("a profile is of one target", hint="compile for that target alone")
        self.request = request
        self.everything = ALL in targets
        self.targets = general_targets() if self.everything else tuple(dict.fromkeys(targets))
        for name in self.targets:
            find_target(name)
        self.left_out: dict[str, str] = {}
        self.held: tuple[str, ...] = ()
        self._wrong: VerificationError | None = None  # of a target that was left out for it
        self._captured: list[Captured] = []  # once for all
        self.report: Report | None = None  # of verifying what was built anew, the first such
        self._told = progress or (request.profile if callable(request.profile) else None)
        self._building = ""
        self.stages = Stages(self._tell if self._told is not None else None)

    def run(self) -> Artifact | Built:
        """Compile for all; returns what fits this machine best, which saves the whole package.

        Raises what Compiler.run does; for ALL only if nothing can be built and is right.
        """
        with temporary_folder() as folder:
            built = {name: self._build_or_leave(name, folder) for name in self.targets}
            sources = {name: source for name, source in built.items() if source is not None}
            if not sources and self._wrong is not None:
                raise self._wrong
            if not sources:
                raise TargetError(
                    "nothing can be built and verified here: "
                    + "; ".join(f"{name}: {why}" for name, why in self.left_out.items()),
                    hint="name the targets, or pass verify=False (--no-verify)",
                )
            self.held, self._building = tuple(sources), ""
            path = folder / "all.cuvilpkg"
            packages = {name: open_package(self._place(folder, name)) for name in sources}
            with self.stages.stage("package"):
                write_bundle(path, packages)
            name, artifact = self._load(path)
        artifact.source = sources[name]
        artifact.compile_seconds = dict(self.stages.seconds)
        artifact.left_out = dict(self.left_out)
        return artifact

    def _tell(self, stage: str, seconds: float | None) -> None:
        if self._told is not None:
            self._told(f"{self._building}: {stage}" if self._building else stage, seconds)

    def _place(self, folder: Path, name: str) -> Path:
        return folder / f"{name}.cuvilpkg"

    def _build_or_leave(self, name: str, folder: Path) -> Source | None:
        fault = running_of(find_target(name)).fault if self.request.verify else None
        if self.everything and fault is not None:
            self._leave_out(name, fault)
            return None
        try:
            return self._build(name, folder)
        except InputError:
            raise
        except CuvilError as error:
            if not self.everything or not self._captured:  # the model can't be read for any
                raise
            if isinstance(error, VerificationError):
                self._wrong = self._wrong or error
                log.warning("%s is left out: %s", name, error.message)
            self._leave_out(name, error.message)
            return None

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out[name] = why
        log.info("%s is left out: %s", name, why)

    def _capture(self, request: CompileRequest) -> Captured:
        if not self._captured:
            self._captured.append(capture(request))
        return self._captured[0]

    def _options_for(self, name: str) -> dict[str, Any]:
        """Budgets of memory are for those of the targets that take any."""
        taking = [n for n in self.targets if takes_budgets(find_target(n))]
        left = BUDGETS if taking and name not in taking else ()
        return {key: value for key, value in self.request.options.items() if key not in left}

    def _build(self, name: str, folder: Path) -> Source:
        self._building = name
        request = replace(self.request, target=name, options=self._options_for(name))
        compiler = Compiler(request, capturing=self._capture)
        compiler.stages = self.stages
        artifact = compiler.run()
        artifact.save(self._place(folder, name))
        self.report = self.report or compiler.report
        source: Source = artifact.source
        return source

    def _load(self, path: Path) -> tuple[str, Artifact | Built]:
        held = held_packages(open_package(path))
        best = best_target({name: package.manifest for name, package in held.items()})
        if best is not None:
            return best, load(path, self.request.threads)
        ways = {name: running_of(find_target(name)) for name in held}
        name = next((name for name, way in ways.items() if way.fault is None), next(iter(held)))
        return name, Built(held[name], ways[name].elsewhere or "", ways[name].runner)


def compiler_for(
    request: CompileRequest, target: str | Sequence[str], progress: Progress | None = None
) -> Compiler | SeveralCompiler:
    """The compiler for one target's name, or for several and ALL."""
    TARGET("target", target)
    if isinstance(target, str) and target != ALL:
        return Compiler(replace(request, target=target), progress=progress)
    names = [target] if isinstance(target, str) else list(target)
    return SeveralCompiler(request, names, progress)
