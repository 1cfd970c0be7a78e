"""Compiles modules and runs them: every pass, the C++ compiler, a package, a load and a call."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.api.manifest import signature_of
from cuvil.build.library import build_library
from cuvil.codegen.abi import emit_abi
from cuvil.codegen.module import generate
from cuvil.frontends.emitter import Emitter
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.ir.types import TensorType, dtype_of
from cuvil.options import Options
from cuvil.package.format import write_package
from cuvil.package.manifest import Manifest
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.reference.interpreter import run_module
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.loader import load
from cuvil.target.base import Target
from cuvil.target.registry import find_target
from tests.ops.values import Case

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Objects and packages of this process; removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="cuvil-graphs-")


@lru_cache(maxsize=1)
def _target() -> Target:
    return find_target("native")


def build(module: Module, options: PassOptions | None = None, threads: int = 1) -> Artifact:
    """The loaded artifact of a captured module, which is left as it is."""
    root = Path(_folder().name)
    target = _target()
    lowered = lower(clone_module(module), "fused", options)
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
    library = build_library(sources, target, Options(root))
    with tempfile.NamedTemporaryFile(dir=root, suffix=".cuvilpkg", delete=False) as place:
        path = Path(place.name)
    write_package(path, manifest, library, generated.weights.parts)
    return load(path, threads)


def run_compiled(
    module: Module, inputs: Mapping[str, Array], options: PassOptions | None = None,
    threads: int = 1,
) -> list[Array]:  # fmt: skip
    """The outputs, in order, of the compiled module for inputs by name."""
    with build(module, options, threads) as artifact:
        return outputs_of(artifact, module, inputs)


def outputs_of(artifact: Artifact, module: Module, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs, in order, of one call."""
    found = artifact.run(dict(inputs))
    return [np.asarray(found[name]) for name in module.main.output_names]


@dataclass(frozen=True)
class Batch:
    """Many calls of one op as one module: case i reads inputs ``x<i>_<k>``."""

    module: Module
    inputs: dict[str, Array]
    cases: list[Case]
    outputs: list[int]  # the case of each output


def batch(
    name: str, cases: Iterable[Case], constant: Sequence[int] = (), symbolic: bool = False
) -> Batch:
    """One module with all the cases. Operands listed in ``constant`` become weights;
    ``symbolic`` makes the first dimension of the first operand a symbol."""
    emitter = Emitter()
    inputs: dict[str, Array] = {}
    values, owners, kept = [], [], []
    for i, case in enumerate(cases):
        operands = []
        for k, array in enumerate(case.arrays):
            if k in constant:
                operands.append(emitter.weight(array))
                continue
            label = f"x{i}_{k}"
            operands.append(emitter.input(label, TensorType(array.shape, dtype_of(array.dtype))))
            inputs[label] = array
        results = emitter.results(name, *operands, **case.attrs)
        values += results
        owners += [i] * len(results)
        kept.append(case)
    module = emitter.finish(values, [f"y{i}" for i in range(len(values))])
    return Batch(module, inputs, kept, owners)


def compare(made: Batch, check: Any, options: PassOptions | None = None, threads: int = 1) -> int:
    """``check(got, wanted, what)`` for each output of each case; returns how many there were."""
    wanted = run_module(made.module, made.inputs)
    found = run_compiled(made.module, made.inputs, options, threads)
    for k, (got, want) in enumerate(zip(found, wanted, strict=True)):
        check(got, want, f"case {made.outputs[k]}: {made.cases[made.outputs[k]]}, output {k}")
    return len(found)
