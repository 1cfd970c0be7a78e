"""Captured modules compiled as they are, quickly: for many small ones."""

from __future__ import annotations

from pathlib import Path

from cuvil.api.compiler import signature_of
from cuvil.build.library import build_library
from cuvil.codegen.abi import emit_abi
from cuvil.codegen.module import generate
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.options import Options
from cuvil.package.format import write_package
from cuvil.package.manifest import Manifest
from cuvil.passes.pipeline import lower
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.loader import load
from cuvil.target.registry import find_target


def quick_build(module: Module, folder: Path, opt_level: int = 1) -> Artifact:
    """The loaded artifact, of hardly optimised machine code; objects are kept in ``folder``."""
    target = find_target("native")
    lowered = lower(clone_module(module), "fused")
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
    options = Options(folder, opt_level=opt_level, jobs=1)
    path = folder / f"{abs(hash((module.name, id(module))))}.cuvilpkg"
    write_package(
        path, manifest, build_library(sources, target, options), generated.weights.parts, sync=False
    )
    return load(path, 1)
