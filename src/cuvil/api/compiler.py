"""The pipeline from a model to a loaded, verified artifact."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuvil.api.capture import Captured, capture
from cuvil.api.request import CompileRequest
from cuvil.api.verification import Source, check_built
from cuvil.build.cache import Cache
from cuvil.build.driver import compiler_version
from cuvil.build.library import build_library, native_sources
from cuvil.codegen.abi import emit_abi
from cuvil.codegen.module import Generated, generate
from cuvil.errors import ArtifactError, InputError, ShapeConstraintError
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Function, Module
from cuvil.ir.printer import print_module
from cuvil.ir.signature import ConstraintSpec, Signature, SymbolSpec, TensorSpec
from cuvil.ir.types import TensorType
from cuvil.options import Options
from cuvil.package.format import open_package, write_package
from cuvil.package.manifest import Manifest
from cuvil.passes.memory import plan_text
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.cpu import cpu_flags
from cuvil.runtime.loader import check_machine, load
from cuvil.target.base import Target
from cuvil.target.registry import find_target
from cuvil.version import __version__

log = logging.getLogger("cuvil")

STAGES = ("captured", "canonical", "fused", "planned", "cxx")


def captured(request: CompileRequest) -> Captured:
    """The captured module of a request."""
    return capture(request)


class Compiler:
    """Carries one request through the stages."""

    def __init__(self, request: CompileRequest, options: Options | None = None) -> None:
        self.request = request
        options = options or Options.from_environment()
        if "opt_level" in request.options:
            options = replace(options, opt_level=int(request.options["opt_level"]))
        self.options = options
        self.target: Target = find_target(request.target)
        self.cache = Cache(self.options.cache_dir, self.options.cache_bytes)

    def run(self) -> Artifact:
        """Compile, or take from the cache; load; verify what was built anew."""
        source = capture(self.request)
        key = self._key(source.module)
        path = self.cache.get(key, open_package) if self.request.cache else None
        if path is None:
            path = self.cache.put(key, lambda place: self._build_checked(source, place))
        artifact = load(path, self.request.threads)
        artifact.source = Source(source.module, source.run, source.examples)
        return artifact

    def text(self, stage: str) -> str:
        """The module's text at a stage."""
        if stage not in STAGES:
            raise InputError(f"there is no stage {stage!r}", hint=f"stages are {', '.join(STAGES)}")
        module = capture(self.request).module
        if stage in ("captured", "canonical", "fused"):
            return print_module(self._lower(module, stage), locations=True)
        lowered = self._lower(module, "fused")
        if stage == "planned":
            return plan_text(lowered.main) + print_module(lowered)
        generated = generate(lowered, self.target)
        return "\n".join(f"// {name}\n{text}" for name, text in generated.sources.items())

    def _lower(self, module: Module, stage: str) -> Module:
        fuel = self.request.options.get("fuel")
        options = PassOptions(self.request.enable_fusion, fuel)
        return lower(module, stage, options) if stage != "captured" else module

    def _key(self, module: Module) -> str:
        """Everything the artifact depends on: graph, weights, options, target, version."""
        parts = [
            print_module(module, locations=False),
            repr(sorted(module.call.items())) if module.call else "",
            repr(self.target),
            repr((self.request.enable_fusion, sorted(self.request.options.items()))),
            repr((self.request.verify, self.options.opt_level)),
            __version__,
            compiler_version(),
            package_digest(),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _build_checked(self, source: Captured, place: Path) -> None:
        build = Source(source.module, source.run, source.examples)
        lowered = self._lower(clone_module(source.module), "fused")
        generated = generate(lowered, self.target)
        manifest = self._write(lowered, generated, place)
        if self.request.verify and _runs_here(manifest):
            check_built(load(place, self.request.threads), build)

    def _write(self, module: Module, generated: Generated, place: Path) -> Manifest:
        manifest = Manifest(
            name=module.name,
            signature=signature_of(module.main),
            target=self.target.triple,
            cpu=self.target.mcpu,
            cpu_features=self.target.cpu_features,
            call=module.call or None,
            source=_plain(module.source),
            weights_bytes=generated.weights.size,
            cuvil_version=__version__,
            extra={"kernels": len(generated.kernels)},
        )
        sources = dict(generated.sources)
        sources["tables.cpp"] = emit_abi(manifest)
        library = build_library(sources, self.target, self.options)
        return write_package(place, manifest, library, generated.weights.parts)


def _runs_here(manifest: Manifest) -> bool:
    try:
        check_machine(manifest, platform.system(), platform.machine(), cpu_flags())
    except ArtifactError:
        return False
    return True


def package_digest() -> str:
    """A digest of Cuvil's own sources that decide what is generated."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for room in ("codegen", "passes", "ops", "rewrite", "analysis", "sym", "frontends"):
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.read_bytes())
    for text in native_sources().values():
        digest.update(text.encode())
    return digest.hexdigest()


def _plain(source: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(source, default=str)))


def signature_of(function: Function) -> Signature:
    """The face of a function, for its manifest. Raises ShapeConstraintError for an output whose
    size no input decides."""
    used: set[str] = set()
    for value in function.inputs:
        used |= value.type.symbols()
    for name, value in zip(function.output_names, function.outputs, strict=True):
        free = value.type.symbols() - used
        if free:
            raise ShapeConstraintError(
                f"the size of output {name!r} depends on data ({', '.join(sorted(free))})",
                hint="make the size part of the input shapes",
            )
    symbols = tuple(
        SymbolSpec(name, low, high)
        for name, (low, high) in function.symbols.items()
        if name in used
    )
    constraints = tuple(
        ConstraintSpec(str(c), c.origin or "model")
        for c in function.constraints
        if c.symbols() <= used
    )
    return Signature(
        tuple(_spec(n, v.type) for n, v in zip(function.input_names, function.inputs)),
        tuple(_spec(n, v.type) for n, v in zip(function.output_names, function.outputs)),
        symbols,
        constraints,
    )


def _spec(name: str, type: TensorType) -> TensorSpec:
    shape = tuple(d if isinstance(d, int) else str(d) for d in type.shape)
    return TensorSpec(name, type.dtype.name, shape)

