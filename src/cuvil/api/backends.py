"""How a lowered module becomes the contents of a package, by the kind of its target.

A new kind of target is one line in ``BACKENDS``, its description in target/, the form it is saved
in (runtime/save.py) and, where it can be run from here, a runner (runners/registry.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cuvil.api import c_backend
from cuvil.api.onnx_backend import generate_onnx, missing_operators, packed, portable
from cuvil.api.operators import missing_kernels
from cuvil.build.library import TABLES, Watch, build_library, built_variants
from cuvil.build.llvm_text import llvm_text
from cuvil.build.wasm import build_wasm
from cuvil.codegen.abi import emit_abi
from cuvil.codegen.module import Generated, generate
from cuvil.codegen.wasm import emit_wasm, weights_image
from cuvil.errors import UnsupportedNode
from cuvil.ir.core import Module
from cuvil.options import Options
from cuvil.package.manifest import WEIGHTS_INSIDE, Manifest
from cuvil.passes.pipeline import PassOptions
from cuvil.runtime.web_form import refuse_host_steps
from cuvil.target.base import Target


@dataclass(frozen=True)
class Contents:
    """What a package holds besides manifest and weights: the main file, and others by name."""

    main: bytes
    parts: Mapping[str, bytes] = field(default_factory=dict)


Generate = Callable[[Module, Target, bool], Generated]
Build = Callable[[Generated, Manifest, Target, Options, Watch | None], Contents]


@dataclass(frozen=True)
class Backend:
    """One kind of target.

    ``generate`` writes the sources of a module at ``stage`` (the flag: with clocks around kernels),
    ``build`` makes the package's contents of them. ``adapt`` changes how passes are steered,
    ``missing`` lists the ops that it can't build; with ``versions`` kernels may have some for
    ranges of sizes.
    """

    generate: Generate
    build: Build
    stage: str = "fused"
    adapt: Callable[[PassOptions], PassOptions] = lambda options: options
    missing: Callable[[Module], list[UnsupportedNode]] = missing_kernels
    versions: bool = True


def _library(
    generated: Generated, manifest: Manifest, target: Target, options: Options, watch: Watch | None
) -> Contents:
    variants = built_variants(generated.sources, target)
    sources = {**generated.sources, TABLES: emit_abi(manifest, variants)}
    return Contents(build_library(sources, target, options, watch))


def _llvm(
    generated: Generated, manifest: Manifest, target: Target, options: Options, watch: Watch | None
) -> Contents:
    sources = {**generated.sources, "tables.cpp": emit_abi(manifest)}
    return Contents(llvm_text(sources, target, options, watch).encode())


def _wasm(
    generated: Generated, manifest: Manifest, target: Target, options: Options, watch: Watch | None
) -> Contents:
    refuse_host_steps(manifest)
    weights = generated.weights
    inside = weights_image(weights.parts, weights.size) if weights.size <= WEIGHTS_INSIDE else None
    more = {"tables.cpp": emit_abi(manifest), "wasm.cpp": emit_wasm(inside)}
    modules = build_wasm({**generated.sources, **more}, options, watch)
    return Contents(modules.pop(""), modules)


def _c(
    generated: Generated, manifest: Manifest, target: Target, options: Options, watch: Watch | None
) -> Contents:
    return Contents(*c_backend.contents(generated, manifest))


def _onnx(
    generated: Generated, manifest: Manifest, target: Target, options: Options, watch: Watch | None
) -> Contents:
    model = packed(generated)
    return Contents(model.main, model.parts or {})


BACKENDS: Mapping[str, Backend] = {
    "library": Backend(generate, _library),
    "llvm": Backend(generate, _llvm),
    "wasm": Backend(generate, _wasm),
    "c": Backend(c_backend.generate_c, _c, adapt=c_backend.adapt, versions=False),
    "onnx": Backend(
        generate_onnx, _onnx, adapt=portable, missing=missing_operators, versions=False
    ),
}
