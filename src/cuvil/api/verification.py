"""An artifact against its source: whole, kernel by kernel, and rewrite by rewrite."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.errors import InputError, VerificationError
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from cuvil.runtime.artifact import Artifact
from cuvil.verify.bisect import Culprit, bisect_build, bisect_meaning
from cuvil.verify.conditioning import outputs_with_noise
from cuvil.verify.inputs import make_inputs, spread_of_sizes
from cuvil.verify.layerwise import check_layers, expose
from cuvil.verify.ranges import integer_limits
from cuvil.verify.report import LayerError, OutputError, Report, compare

Array = np.ndarray[Any, Any]
ATOL, RTOL = 1e-5, 1e-3
# After a build, further sizes are tried until the source has taken this long; small ones first.
BUILD_SECONDS = 8.0


@dataclass(frozen=True)
class Source:
    """The captured module, and the source model as a function of flat inputs by name.

    ``lower`` brings a copy of a captured module to stage "fused", ``build`` makes an artifact of
    such a module; both as the artifact itself was made. ``origin`` is the model that was captured.
    """

    module: Module
    run: Callable[[Mapping[str, Array]], list[Array]]
    examples: Mapping[str, Array]
    lower: Callable[[Module], Module]
    build: Callable[[Module], Artifact]
    enable_fusion: bool = True
    origin: Any = None


class DeferredSource(Source):
    """A source that is captured once it is asked for: an artifact from the cache needs none."""

    def __init__(self, make: Callable[[], Source]) -> None:
        object.__setattr__(self, "_make", make)

    def __getattribute__(self, name: str) -> Any:
        held = object.__getattribute__(self, "__dict__")
        if name in Source.__dataclass_fields__ and name not in held:
            held.update(vars(held["_make"]()))
        return object.__getattribute__(self, name)


def check_built(artifact: Artifact, source: Source) -> Report:
    """Verify a fresh build. Raises VerificationError when it disagrees with its source."""
    trials = sorted(_trials(artifact, source, None), key=_elements)
    report = _compare_all(artifact, source, trials, ATOL, RTOL, BUILD_SECONDS)
    if not report.passed:
        raise VerificationError(
            f"the artifact disagrees with its model; {report}",
            report,
            hint="this is a fault of Cuvil: please report it with what `cuvil verify MODEL "
            "--layerwise --bisect` says",
        )
    return report


def verify_artifact(
    artifact: Artifact, inputs: Any, atol: float, rtol: float, layerwise: bool
) -> Report:
    """The body of :func:`cuvil.verify`."""
    source = _source_of(artifact)
    trials = _trials(artifact, source, inputs)
    report = _compare_all(artifact, source, trials, atol, rtol)
    if not layerwise:
        return report
    layers, verdict = _layers(report, source, trials, atol, rtol)
    return Report(report.errors, report.tolerance, report.cases, layers, verdict)


def bisect_artifact(
    artifact: Artifact, inputs: Any = None, atol: float = ATOL, rtol: float = RTOL
) -> Culprit | None:
    """The first rewrite that makes an artifact's result wrong, or None if it is right.

    First the reference interpreter tells whether a rewrite changes what the program means; if
    none does, the program is built after each number of rewrites. Raises InputError as
    :func:`cuvil.verify` does.
    """
    source = _source_of(artifact)
    trials = _trials(artifact, source, inputs)
    names = [s.name for s in artifact.outputs]
    wanted = [source.run(x) for x in trials]
    meant = [run_module(source.module, x) for x in trials]

    def differ(a: Sequence[Sequence[Array]], b: Sequence[Sequence[Array]]) -> bool:
        pairs = zip(a, b, strict=True)
        return any(not e.passed for x, y in pairs for e in compare(names, x, y, atol, rtol))

    def wrong_build(module: Module) -> bool:
        built = source.build(module)
        found = [built.run(x) for x in trials]
        return differ(wanted, [[f[n] for n in names] for f in found])

    if differ(wanted, meant):
        return Culprit(0, 0, "the captured program already differs from the model", "")
    found = bisect_meaning(
        source.module,
        lambda module: differ(meant, [run_module(module, x) for x in trials]),
        source.enable_fusion,
    )
    return found or bisect_build(source.module, wrong_build, source.enable_fusion)


def _source_of(artifact: Artifact) -> Source:
    source = artifact.source
    if not isinstance(source, Source):
        raise InputError(
            "this artifact was loaded without its source model",
            hint="verify what cuvil.compile returned",
        )
    return source


def _trials(artifact: Artifact, source: Source, inputs: Any) -> list[dict[str, Array]]:
    if inputs is not None:
        return [named_inputs(artifact, inputs)]
    signature = artifact.manifest.signature
    rng = np.random.default_rng(0)
    limits = integer_limits(source.module)
    return [
        make_inputs(signature, sizes, source.examples, rng, limits)
        for sizes in spread_of_sizes(signature, source.examples)
    ]


def named_inputs(artifact: Artifact, inputs: Any) -> dict[str, Array]:
    """Inputs as a dict by name, from a dict, a tuple in order, or a single one."""
    names = [s.name for s in artifact.inputs]
    if isinstance(inputs, Mapping):
        return {k: np.asarray(v) for k, v in inputs.items()}
    values = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if len(values) != len(names):
        raise InputError(f"the model has {len(names)} inputs; {len(values)} were given")
    return {n: np.asarray(v) for n, v in zip(names, values)}


def _compare_all(
    artifact: Artifact,
    source: Source,
    trials: Sequence[Mapping[str, Array]],
    atol: float,
    rtol: float,
    seconds: float = math.inf,
) -> Report:
    """Compare on each of the trials, or on as many as ``seconds`` allow, at least one."""
    errors: list[OutputError] = []
    cases: list[str] = []
    names = [s.name for s in artifact.outputs]
    start, spent, previous = time.monotonic(), 0.0, 1
    for inputs in trials:
        grown = _elements(inputs) / max(1, previous)
        if cases and time.monotonic() - start + spent * grown > seconds:
            break
        begin, previous = time.monotonic(), _elements(inputs)
        expected = source.run(inputs)
        outputs = artifact.run(inputs)
        errors += compare(names, expected, [outputs[n] for n in names], atol, rtol)
        spent = time.monotonic() - begin
        cases.append(", ".join(f"{n}{list(a.shape)}" for n, a in inputs.items()))
    return Report(tuple(errors), {"atol": atol, "rtol": rtol}, tuple(cases))


def _elements(inputs: Mapping[str, Array]) -> int:
    return sum(a.size for a in inputs.values())


def _layers(
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
    artifact: Artifact, symbols: Mapping[str, int], inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Outputs by name. What they are written over is no number, as in an arena that is in use:
    new memory is zero, which would hide what a kernel leaves out."""
    shapes = artifact.manifest.signature.output_shapes(symbols)
    out = {}
    for spec, shape in zip(artifact.outputs, shapes, strict=True):
        size = spec.element.size * math.prod(shape)
        raw = np.full(size, 0xFF, np.uint8)
        out[spec.name] = raw.view(spec.element.numpy).reshape(shape)
    return artifact.run(inputs, out)


def _verdict(
    report: Report,
    layers: Sequence[LayerError],
    source: Source,
    lowered: tuple[Module, Artifact],
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
        if not same(source.run(inputs), meant):
            return "the captured program differs from the model: the fault is in the capture"
        if not same(meant, run_module(fused, inputs)):
            return "every kernel is right; a rewrite changes the program (bisecting names it)"
        found = list(apart.run(inputs).values())[: len(meant)]
        if not same(meant, found):
            return "every kernel is right on its own inputs, but their small errors add up"
        if not same(meant, list(built.run(inputs).values())):
            return "every kernel and rewrite is right alone: kernels overwrite each other's memory"
    return "every kernel and rewrite is right: the artifact differs from a fresh build of its model"
