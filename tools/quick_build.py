"""Captured modules compiled as they are, without cache and verification: for many small ones."""

from __future__ import annotations

import tempfile
from pathlib import Path

from cuvil.api.manifest import signature_of
from cuvil.build.library import build_library
from cuvil.codegen.abi import emit_abi
from cuvil.codegen.module import generate
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.options import Options
from cuvil.package.format import write_package
from cuvil.package.manifest import Manifest
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.loader import load
from cuvil.target.registry import find_target


def quick_build(
    module: Module,
    folder: Path,
    opt_level: int = 1,
    *,
    passes: PassOptions | None = None,
    threads: int = 1,
) -> Artifact:
    """The loaded artifact of a captured module, which is left as it is. ``opt_level`` is that of
    the machine code, hardly any by default; ``folder`` keeps the objects, as a cache does."""
    target = find_target("native")
    lowered = lower(clone_module(module), "fused", passes)
    generated = generate(lowered, target)
    manifest = Manifest(
        name=lowered.name,
        signature=signature_of(lowered.main),
        target=target.triple,
        cpu=target.mcpu,
        cpu_features=target.cpu_features,
        weights_bytes=generated.weights.size,
    )
    sources = {**generated.sources, "tables.cpp": emit_abi(manifest)}
    library = build_library(sources, target, Options(folder, opt_level=opt_level, jobs=1))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "quick.cuvilpkg"
        write_package(path, manifest, library, generated.weights.parts, sync=False)
        return load(path, threads)
