"""Captured modules as C, compiled for this machine and called; without cache and verification."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.api.c_backend import adapt
from cuvil.api.manifest import signature_of
from cuvil.codegen.c.module import HEADER, MEASURED, SOURCE, generate
from cuvil.codegen.module import Generated
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.package.format import open_package, write_package
from cuvil.package.manifest import Manifest
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.runners.c import C_RUNNER
from cuvil.target.registry import find_target

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cuvil-c-")


def generate_c(module: Module, **options: Any) -> Generated:
    """The C of a captured module, which is left as it is."""
    lowered = lower(clone_module(module), "fused", adapt(PassOptions(**options)))
    return generate(lowered, find_target("c"))


def run_c(
    module: Module, inputs: Mapping[str, Array], small: bool = False, ahead: str = "",
    **options: Any,
) -> list[Array]:  # fmt: skip
    """The outputs, in order, of one call; ``small``: of what is compiled with -Os. ``ahead`` comes
    before the source."""
    generated = generate_c(module, **options)
    manifest = Manifest(
        name=module.name, signature=signature_of(module.main), target="c",
        extra={"kind": "c", **generated.facts},
    )  # fmt: skip
    path = Path(_folder().name) / "model.cuvilpkg"
    sources = generated.sources
    parts = {name: sources[name].encode() for name in (HEADER, MEASURED)}
    ahead += "#define __OPTIMIZE_SIZE__ 1\n" if small else ""
    source = ahead + sources[SOURCE]
    write_package(path, manifest, source.encode(), [], parts, sync=False)
    found = C_RUNNER.run(open_package(path), inputs)
    return [found[name] for name in module.main.output_names]
