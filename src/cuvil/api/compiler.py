"""The pipeline from a model to a loaded, verified artifact."""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cuvil.api.backends import BACKENDS
from cuvil.api.c_backend import with_budgets
from cuvil.api.capture import Captured, capture, need_framework
from cuvil.api.example_check import known_right, values_digest
from cuvil.api.keys import artifact_key, loaded_version, quick_key
from cuvil.api.manifest import (
    ORIGINS,
    call_of,
    extra_of,
    machine_of,
    plain,
    profile_of,
    python_functions,
    signature_of,
)
from cuvil.api.picture.collect import Made
from cuvil.api.picture.write import write_picture
from cuvil.api.progress import Progress, Stages
from cuvil.api.request import CompileRequest
from cuvil.api.running import running_of
from cuvil.api.source import DeferredSource, Source
from cuvil.api.tuning import measure_with, place_of, tuning_asked
from cuvil.api.variant_check import each_way
from cuvil.api.variants import SizesAsked, sizes_asked
from cuvil.api.verification import AGAIN_SECONDS, check_built
from cuvil.api.workplace import check_package, temporary_folder, working_folder
from cuvil.build.cache import Cache
from cuvil.codegen.module import Generated, generate
from cuvil.errors import TargetError, UnsupportedOpError
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.ops.custom import CUSTOM
from cuvil.options import Options
from cuvil.package.format import open_package, write_package
from cuvil.package.hash64 import hash64_of_parts
from cuvil.package.manifest import Manifest
from cuvil.passes.pipeline import PassOptions
from cuvil.passes.pipeline import lower as lower_to
from cuvil.passes.tuning import known_kernels
from cuvil.rewrite.rewriter import Trace
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.cpu import usable_threads
from cuvil.runtime.loader import load
from cuvil.target.base import Target
from cuvil.target.registry import find_target, target_beside
from cuvil.tune.sizes import sizes_to_measure
from cuvil.tune.store import WinnerStore
from cuvil.tune.table import TuningTable, read_table
from cuvil.tune.tuner import Tuner
from cuvil.tune.watch import watch
from cuvil.verify.report import Report
from cuvil.version import __version__

log = logging.getLogger("cuvil")


class Compiler:
    """Carries one request through the stages; ``stages`` times them."""

    def __init__(
        self,
        request: CompileRequest,
        options: Options | None = None,
        progress: Progress | None = None,
        capturing: Callable[[CompileRequest], Captured] = capture,
    ) -> None:
        self.request = request
        self._capture = capturing
        options = options or Options.from_environment()
        if "opt_level" in request.options:
            options = replace(options, opt_level=int(request.options["opt_level"]))
        if "jobs" in request.options:
            options = replace(options, jobs=int(request.options["jobs"]))
        self.options = options
        self.target: Target = with_budgets(find_target(request.target), request.options)
        if request.options.get("profile") and self.target.kind != "library":
            raise TargetError(
                f"what is built for {self.target.name} has no clock for its kernels",
                hint="leave the option profile (--instrument) out, or compile for target='native'",
            )
        self.backend = BACKENDS[self.target.kind]
        self.cache = Cache(self.options.cache_dir, self.options.cache_bytes)
        self.report: Report | None = None  # of verifying what was built anew, or nothing
        self.made: Made | None = None  # what was built anew
        asked = tuning_asked(self.request.options.get("tune"))
        # Of a run that is to measure, the table is there once it has, or was in the cache.
        self.table = asked if isinstance(asked, TuningTable) else None
        self._tune_seconds = asked if isinstance(asked, float) else None
        self.sizes = sizes_asked(self.request.options, self.target, self.backend.versions)
        self.measures = self._tune_seconds is not None or self.sizes.measure is not None
        self.stages = Stages(progress or (request.profile if callable(request.profile) else None))

    def run(self) -> Artifact | Built:
        """Compile, or take from the cache; load; verify what was built anew, or what the cache
        has for the captured graph.

        For a target that can't be loaded here the result is a Built; raises TargetError if it was
        to be verified and there is nothing to run it with.

        Where nothing can be written in the cache folder, it builds in one that lasts until then.
        """
        need_framework(self.request.kind)
        running = running_of(self.target)
        if running.elsewhere is not None and self.measures:
            raise TargetError(
                f"what is built for {self.target.name} ({self.target.triple}) can't be measured "
                f"here: {running.elsewhere}",
                hint="tune on a machine of that kind, and give the table that it found",
            )
        if self.request.verify and running.fault is not None:
            raise TargetError(
                f"what is built for {self.target.name} ({self.target.triple}) can't be verified "
                f"here: {running.fault}",
                hint="pass verify=False (--no-verify), and verify it where it can run",
            )
        with self.stages.stage("cache"):
            quick = self._quick_key()
            path = self._known(quick)
        source: Source | None = None
        artifact = self._known_right(path, quick)
        if artifact is None:
            with contextlib.ExitStack() as until_loaded:
                with self.stages.stage("capture"):
                    source = self.capture()
                path = self._found_or_built(source, quick, until_loaded)
                with self.stages.stage("load"):
                    artifact = self._load(path)
        artifact.source = source or DeferredSource(self.capture)
        if isinstance(artifact, Artifact):
            watch(artifact)
        if artifact.tuning is not None:
            self.table = read_table(artifact.tuning)
        artifact.compile_seconds = dict(self.stages.seconds)
        if self.request.picture is not None and self.made is not None:
            write_picture(self.request.picture, self.made, artifact, list(self.stages.slices))
        return artifact

    def _load(self, path: Path, threads: int | None = None) -> Artifact | Built:
        running = running_of(self.target)
        if running.elsewhere is not None:
            return Built(open_package(path), running.elsewhere, running.runner)
        return load(path, threads or self.request.threads, functions=CUSTOM.functions())

    def _quick_key(self) -> str | None:
        if not self.request.cache:
            return None
        return quick_key(self.request, self.target, self.options)

    def _known(self, quick: str | None) -> Path | None:
        """The artifact that the quick key stands for, if it is there and whole."""
        anew = self.request.picture is not None
        key = self.cache.alias(quick) if quick is not None and not anew else None
        path = self.cache.get(key, check_package) if key is not None else None
        if path is not None:
            log.info("from the cache, without a capture: %s", path)
        return path

    def _known_right(self, path: Path | None, quick: str | None) -> Artifact | Built | None:
        """The artifact of the quick key, if it is right on the example values too."""
        if path is None or quick is None:
            return None
        with self.stages.stage("load"):
            artifact = self._load(path)
        with self.stages.stage("verify"):
            return artifact if known_right(artifact, self.request, self.cache, quick) else None

    def _found_or_built(
        self, source: Source, quick: str | None, until_loaded: contextlib.ExitStack
    ) -> Path:
        name = source.module.name
        if python_functions(source.module):  # these are of this process: nothing is kept
            alone = until_loaded.enter_context(temporary_folder()) / "model.cuvilpkg"
            self._build_checked(source, alone)
            return alone
        with self.stages.stage("cache"):
            key = artifact_key(source.module, self.request, self.target, self.options)
            kept = self.request.cache and self.request.picture is None
            path = self.cache.get(key, check_package) if kept else None
        log.info("%s: %s", name, "compiling" if path is None else "from the cache")
        if path is not None and self.request.verify:
            # Models of one graph may differ: in what their own operators compute, for one.
            with self.stages.stage("verify"):
                again = check_built(self._load(path), source, AGAIN_SECONDS)
                self.report = None if again.compared else again
        before = self.cache.checked(quick) if path is not None and quick is not None else []
        if path is None:
            elsewhere = until_loaded.enter_context(working_folder(self.cache))
            if elsewhere is not None:
                self.options = replace(self.options, cache_dir=elsewhere)
                self.cache, quick = Cache(elsewhere), None
            path = self.cache.put(key, lambda place: self._build_checked(source, place))
        unknown = self.report is not None and not self.report.compared
        if quick is not None and not unknown:  # else the next one would not say so
            self.cache.set_alias(quick, key)
            self.cache.set_checked(quick, [*before, values_digest(self.request.example_inputs)])
        return path

    def capture(self) -> Source:
        """The captured module, and the model to check against."""
        captured = self._capture(self.request)
        return Source(
            captured.module,
            captured.run,
            captured.examples,
            lambda module: self.lower(module, self.backend.stage),
            self.build,
            self._pass_options(captured.module),
            captured.origin,
            lambda threads: self._build_here(
                self.lower(clone_module(captured.module), self.backend.stage), True, threads
            ),
            self.request.precision,
            lambda asked: Compiler(
                replace(self.request, target=target_beside(self.request.target, asked)),
                self.options,
                capturing=lambda _: captured,
            ).run(),
            captured.settled,
            captured.exact,
        )

    def build(
        self, fused: Module, profile: bool | None = None, threads: int | None = None
    ) -> Artifact | Built:
        """The native part of a module at the backend's stage, in no cache and no file. ``profile``
        and ``threads`` None are as was asked."""
        with temporary_folder() as folder:
            place = folder / "model.cuvilpkg"
            self._write(fused, place, profile)
            return self._load(place, threads).native

    def _build_here(self, fused: Module, profile: bool, threads: int | None) -> Artifact:
        """The same, of what this process can load."""
        built = self.build(fused, profile, threads)
        assert isinstance(built, Artifact)
        return built

    def lower(
        self, module: Module, stage: str, trace: Trace | None = None, timed: bool = False
    ) -> Module:
        """A module at a stage, changed in place."""
        options = self._pass_options(module, trace, timed)
        return lower_to(module, stage, options) if stage != "captured" else module

    def _pass_options(
        self, module: Module, trace: Trace | None = None, timed: bool = False
    ) -> PassOptions:
        """How the passes are steered."""
        options = PassOptions(
            self.request.enable_fusion,
            self.request.options.get("fuel"),
            trace or Trace(),
            winograd=bool(self.request.options.get("winograd", True)),
            tuning=self.table.choices if self.table is not None else {},
            watch=self.stages.step if timed else None,
            precision=self.request.precision,
            chains=bool(self.request.options.get("chains", True)),
            variants=self.sizes.versions(module.main),
            pair_rate=self.target.pair_rate,
            panel=self.target.nr,
        )
        return self.backend.adapt(options)

    def generate(self, fused: Module, profile: bool = False) -> Generated:
        missing = self.backend.missing(fused)
        if missing:
            raise UnsupportedOpError(missing, stage="codegen")
        ranges = self.sizes.ranges(fused.main)
        if ranges is not None:
            return generate(fused, self.target, profile, ranges)
        return self.backend.generate(fused, self.target, profile)

    def _build_checked(self, source: Source, place: Path) -> None:
        trace = Trace(detailed=self.request.picture is not None)
        if self._tune_seconds is not None:
            self.table = self._measured(source, self._tune_seconds)
        elif self.table is not None:
            self.table = self._matching(source, self.table)
        if self.sizes.measure is not None:
            self.sizes = self._worthwhile(source)
        with self.stages.stage("passes"):
            lowered = self.lower(
                clone_module(source.module), self.backend.stage, trace, timed=True
            )
        generated = self._write(lowered, place)
        self.made = Made(lowered, generated.calls, trace)
        if self.request.verify:
            with self.stages.stage("verify"):
                built = self._load(place)
                self.report = check_built(built, source)
                for _ in each_way(built):
                    check_built(built, source, AGAIN_SECONDS)

    def _measured(self, source: Source, seconds: float) -> TuningTable:
        """Measure how the kernels are best run, for about ``seconds``."""
        alone = copy.copy(self)  # what it builds meanwhile are no stages of this compilation
        alone.stages, alone.table, alone.sizes = Stages(), None, SizesAsked()
        threads = self.request.threads or usable_threads()
        examples = source.examples if self.request.example_inputs is not None else {}
        with self.stages.stage("tune"):
            fused = alone.lower(clone_module(source.module), "fused")
            tuner = Tuner(
                self.target,
                place_of(self.target, threads, loaded_version()),
                measure_with(lambda module: alone._build_here(module, True, threads)),
                WinnerStore(self.options.cache_dir) if self.request.cache else None,
                step=self.stages.part,
            )
            sizes = sizes_to_measure(signature_of(fused.main), examples)
            return tuner.run(fused, sizes, seconds)

    def _worthwhile(self, source: Source) -> SizesAsked:
        """Of the versions for some sizes those that gain something, by measuring."""
        examples = source.examples if self.request.example_inputs is not None else {}
        alone, function = copy.copy(self), source.module.main
        alone.stages, alone.sizes = Stages(), self.sizes.to_measure(function, examples)
        with self.stages.stage("tune"):
            built = alone.build(alone.lower(clone_module(source.module), "fused"), False)
            return self.sizes.measured(built, examples)

    def _matching(self, source: Source, table: TuningTable) -> TuningTable:
        """What of a table is about this model's kernels."""
        alone = copy.copy(self)
        alone.table, alone.sizes = None, SizesAsked()
        with self.stages.stage("passes"):
            fused = alone.lower(clone_module(source.module), "fused")
        matching = table.of(known_kernels(fused))
        if table.kernels and not matching.kernels:
            log.warning("no kernel of %s is in the tuning table: nothing is tuned", fused.name)
        return matching

    def _write(self, module: Module, place: Path, profile: bool | None = None) -> Generated:
        if profile is None:
            profile = bool(self.request.options.get("profile"))
        with self.stages.stage("generate"):
            generated = self.generate(module, profile)
            weights = generated.weights
            calls = profile_of(generated.calls, self.target) if profile else None
        manifest = Manifest(
            name=module.name,
            signature=signature_of(module.main, module.source.get(ORIGINS)),
            target=self.target.triple,
            cpu=self.target.mcpu,
            cpu_features=self.target.cpu_features,
            call=call_of(module),
            source=plain({k: v for k, v in module.source.items() if k != ORIGINS}),
            weights_bytes=weights.size,
            weights_hash64=f"{hash64_of_parts(weights.parts, weights.size):016x}",
            cuvil_version=__version__,
            extra={
                **extra_of(module, generated.kernels, calls, self.table),
                **self.sizes.described(module.main, generated),
                "precision": self.request.precision,
                **generated.memory,
                **generated.facts,
                "kind": self.target.kind,
                **machine_of(self.target, generated.sources),
            },
        )
        with self.stages.stage("build"):
            made = self.backend.build(
                generated, manifest, self.target, self.options, self.stages.unit
            )
        with self.stages.stage("package"):
            write_package(place, manifest, made.main, weights.parts, made.parts)
        return generated
