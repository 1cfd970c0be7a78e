"""An artifact kernel by kernel, and what all comparisons together say."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuvil.api.judging import settled_by
from cuvil.api.source import Source
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.verify.conditioning import outputs_with_noise
from cuvil.verify.layerwise import check_layers, expose
from cuvil.verify.report import LayerError, Report, compare

Array = np.ndarray[Any, Any]


def check_layers_of(
    report: Report,
    source: Source,
    trials: Sequence[Mapping[str, Array]],
    atol: float,
    rtol: float,
) -> tuple[tuple[LayerError, ...], str]:
    """Every kernel on the first trial that shows one wrong (else the last), and a verdict."""
    fused = source.lower(clone_module(source.module))
    exposed = expose(fused)
    built = source.build(exposed.module)
    layers: list[LayerError] = []
    for inputs in trials:
        symbols = built.symbols_for(inputs)
        run = functools.partial(_run_on_garbage, built, symbols)
        layers = check_layers(exposed, run, inputs, symbols, atol, rtol)
        if any(not layer.passed for layer in layers):
            break
    return tuple(layers), _verdict(report, layers, source, (fused, built), trials, atol, rtol)


def _run_on_garbage(
    artifact: Artifact | Built, symbols: Mapping[str, int], inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Outputs by name. What they are written over is no number, as in an arena that is in use:
    new memory is zero, which would hide what a kernel leaves out."""
    signature = artifact.manifest.signature
    shapes = signature.output_shapes(symbols)
    out = {}
    for spec, shape in zip(artifact.outputs, shapes, strict=True):
        if signature.is_late(spec):
            continue  # the library's own memory, which no caller gives
        size = spec.element.size * math.prod(shape)
        raw = np.full(size, 0xFF, np.uint8)
        out[spec.name] = raw.view(spec.element.numpy).reshape(shape)
    return artifact.run(inputs, None if isinstance(artifact, Built) else out)


def _verdict(
    report: Report,
    layers: Sequence[LayerError],
    source: Source,
    lowered: tuple[Module, Artifact | Built],
    trials: Sequence[Mapping[str, Array]],
    atol: float,
    rtol: float,
) -> str:
    """What the comparisons say together; ``lowered`` is the fused module, and the artifact of it
    that keeps every kernel's results apart."""
    if any(not layer.passed for layer in layers):
        return "a kernel computes something else than its operators mean"
    if report.passed:
        return "every kernel agrees with the reference"

    def same(a: Sequence[Array], b: Sequence[Array]) -> bool:
        return all(e.passed for e in compare([str(i) for i in range(len(a))], a, b, atol, rtol))

    fused, apart = lowered
    built = source.build(fused)
    for inputs in trials:
        meant = run_module(source.module, inputs)
        rounded = outputs_with_noise(fused, inputs, apart.symbols_for(inputs))
        if not same(run_module(fused, inputs), rounded):
            return (
                "every kernel is right on its own inputs; rounding alone grows beyond the "
                "tolerance on the way to the outputs: these inputs are ill-conditioned"
            )
        if not same(settled_by(source, inputs) or source.run(inputs), meant):
            return "the captured program differs from the model: the fault is in the capture"
        if not same(meant, run_module(fused, inputs)):
            return "every kernel is right; a rewrite changes the program (bisecting names it)"
        found = list(apart.run(inputs).values())[: len(meant)]
        if not same(meant, found):
            return "every kernel is right on its own inputs, but their small errors add up"
        if not same(meant, list(built.run(inputs).values())):
            return "every kernel and rewrite is right alone: kernels overwrite each other's memory"
    return "every kernel and rewrite is right: the artifact differs from a fresh build of its model"
