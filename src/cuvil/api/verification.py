"""An artifact against its source: whole, kernel by kernel, and rewrite by rewrite."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuvil.api.advice import advice
from cuvil.api.host_check import with_host_steps
from cuvil.api.judging import Notes, case_text, expected_of, judged, settled_by
from cuvil.api.layer_check import check_layers_of
from cuvil.api.path_check import check_paths
from cuvil.api.source import Source
from cuvil.api.tensors import as_array
from cuvil.api.variant_check import in_turn, sizes_to_try
from cuvil.errors import InputError, VerificationError
from cuvil.errors.arguments import FLAG, NUMBER, check_all, of_type
from cuvil.errors.words import counted, shown, were_given
from cuvil.ir.core import Module
from cuvil.ops.custom import CUSTOM
from cuvil.reference.interpreter import run_module
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.verify.bisect import Culprit, bisect_build, bisect_meaning
from cuvil.verify.branches import reach_branches, with_loop_sizes
from cuvil.verify.inputs import make_inputs
from cuvil.verify.late_sizes import with_sizes_that_fit
from cuvil.verify.memory import sizes_that_fit
from cuvil.verify.ranges import integer_limits
from cuvil.verify.report import OutputError, Report, compare
from cuvil.verify.tolerance import tolerance_of

log = logging.getLogger("cuvil")

Array = np.ndarray[Any, Any]
ATOL, RTOL = 1e-5, 1e-3
_NO_NUMBERS = "OSUmM"  # kinds of NumPy's dtypes
# After a build, further sizes are tried until the source has taken this long; small ones first.
BUILD_SECONDS = 8.0
# The same for an artifact from the cache, which was verified against a model of the same graph.
AGAIN_SECONDS = 0.2


def check_built(
    artifact: Artifact | Built, source: Source, seconds: float = BUILD_SECONDS
) -> Report:
    """Verify a build, for about ``seconds`` or on one set of inputs: with less than a build's time
    the examples' own before all others.

    Raises VerificationError when it disagrees with its source.
    """
    _check_references(source)
    trials, versions = in_turn(artifact, _trials(artifact, source, None))
    if seconds < BUILD_SECONDS:
        trials = sorted(trials, key=lambda inputs: not _of_examples(inputs, source.examples))
    fewest = versions if seconds >= BUILD_SECONDS else 1
    allowed = tolerance_of(source.module, source.precision)
    report = _compare_all(artifact.native, source, trials, *allowed, seconds, fewest=fewest)[0]
    if not report.compared:
        log.warning("%s is not verified: the model refused all inputs made up for it; %s",
                    source.module.name, report.skipped[0])  # fmt: skip
    if isinstance(artifact, Artifact):
        report = with_host_steps(report, artifact, source.module, trials[0], source.examples)
    if report.wrong:
        raise VerificationError(
            f"the artifact disagrees with its model; {report}",
            report,
            hint=advice(source.module, source.precision),
        )
    return report


def _of_examples(inputs: Mapping[str, Array], examples: Mapping[str, Array]) -> bool:
    """Whether inputs are the examples, which are resized for other shapes."""
    return all(name in examples and examples[name].shape == a.shape for name, a in inputs.items())


def _check_references(source: Source) -> None:
    """Raise InputError for a registered operator that the reference interpreter can't run."""
    if source.module.source.get("frontend") != "onnx":
        return  # PyTorch runs its own
    for op in source.module.main.walk():
        registered = CUSTOM.of(op.name)
        if registered is not None and not registered.has_reference:
            raise InputError(
                f"operator {registered.name} has no reference to compare with",
                where=str(op.loc),
                hint="register it with reference=, or compile with verify=False",
            )


def verify_artifact(
    artifact: Artifact | Built, inputs: Any, atol: float | None, rtol: float | None,
    layerwise: bool, paths: bool = False,
) -> Report:  # fmt: skip
    """The body of :func:`cuvil.verify`."""
    check_all({"layerwise": FLAG, "paths": FLAG}, {"layerwise": layerwise, "paths": paths})
    source = _source_of(artifact)
    strict = atol is not None or rtol is not None
    atol, rtol = _tolerances(source, atol, rtol)
    trials = _trials(artifact, source, inputs)
    report, trials = _compare_all(
        artifact.native, source, trials, atol, rtol, given=inputs is not None, strict=strict
    )
    _need_compared(report)
    given = source.examples if inputs is None else named_inputs(artifact, inputs)
    least = min(trials, key=_elements)
    report = with_host_steps(report, artifact, source.module, least, given)
    if paths:
        report = replace(report, paths=check_paths(artifact, source, trials, inputs is None))
    if not layerwise:
        return report
    layers, verdict = check_layers_of(report, source, trials, atol, rtol)
    return replace(report, layers=layers, verdict=verdict)


def _need_compared(report: Report) -> None:
    """Raise InputError if the model took none of the inputs."""
    if not report.compared:
        raise InputError(
            f"nothing was compared: the model refused all made-up inputs; {report.skipped[0]}",
            hint="give inputs that the model takes",
        )


def _tolerances(source: Source, atol: float | None, rtol: float | None) -> tuple[float, float]:
    """As asked, else what the model's dtypes allow. Raises InputError for a negative number."""
    for name, value in (("atol", atol), ("rtol", rtol)):
        NUMBER.optional(name, value)
        if value is not None and not 0 <= value < math.inf:
            raise InputError(f"{name} is {value}", hint="give a number of at least 0")
    usual = tolerance_of(source.module, source.precision)
    return usual[0] if atol is None else atol, usual[1] if rtol is None else rtol


def bisect_artifact(
    artifact: Artifact | Built,
    inputs: Any = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> Culprit | None:
    """The first rewrite that makes an artifact's result wrong, or None if it is right.

    First the reference interpreter tells whether a rewrite changes what the program means; if
    none does, the program is built after each number of rewrites. Raises InputError as
    :func:`cuvil.verify` does.
    """
    source = _source_of(artifact)
    strict = atol is not None or rtol is not None
    atol, rtol = _tolerances(source, atol, rtol)
    trials = _trials(artifact, source, inputs)
    native = artifact.native
    report, trials = _compare_all(
        native, source, trials, atol, rtol, given=inputs is not None, strict=strict
    )
    _need_compared(report)
    names = [s.name for s in native.outputs]
    meant = [run_module(source.module, x) for x in trials]
    excused = report.passed  # where the model itself is off, or has other places of equal elements
    wanted = meant if excused else [settled_by(source, x) or source.run(x) for x in trials]

    def differ(a: Sequence[Sequence[Array]], b: Sequence[Sequence[Array]]) -> bool:
        pairs = zip(a, b, strict=True)
        return any(not e.passed for x, y in pairs for e in compare(names, x, y, atol, rtol))

    def wrong_build(module: Module) -> bool:
        built = source.build(module)
        found = [built.run(x) for x in trials]
        return differ(wanted, [[f[n] for n in names] for f in found])

    if differ(wanted, meant):
        return Culprit(0, 0, "the captured program already differs from the model", "")
    options = source.passes
    found = bisect_meaning(
        source.module,
        lambda module: differ(meant, [run_module(module, x) for x in trials]),
        options,
    )
    return found or bisect_build(source.module, wrong_build, options)


def _source_of(artifact: Artifact | Built) -> Source:
    of_type((Artifact, Built), "what cuvil.compile returned")("compiled", artifact)
    source = artifact.source
    if not isinstance(source, Source):
        raise InputError(
            "this artifact was loaded without its source model",
            hint="verify what cuvil.compile returned",
        )
    return source


def _trials(artifact: Artifact | Built, source: Source, inputs: Any) -> list[Mapping[str, Array]]:
    """Numeric inputs by name, one dict a trial."""
    if inputs is not None:
        return [_checked(artifact, artifact.library_inputs(named_inputs(artifact, inputs)))]
    signature = artifact.manifest.signature
    rng = np.random.default_rng(0)
    limits = integer_limits(source.module)
    tried = sizes_that_fit(source.module, sizes_to_try(artifact, source.examples))
    made = [
        make_inputs(signature, sizes, source.examples, rng, limits)
        for sizes in with_loop_sizes(source.module, signature, source.examples, tried)
    ]
    trials = with_sizes_that_fit(source.module, source.examples, made)
    more = reach_branches(source.module, signature, source.examples, limits, trials)
    if more.missed:
        log.info("verification reaches all but %s", ", ".join(more.missed))
    return [*trials, *more.trials]


def _checked(artifact: Artifact | Built, given: dict[str, Any]) -> dict[str, Array]:
    """The library's inputs. Raises InputError for other names, and for what is no numbers."""
    names = [s.name for s in artifact.manifest.signature.inputs]
    hint = f"give one set of inputs: a dict by name ({', '.join(names)}), or a tuple in order"
    for name in (*given, *names):
        if name not in names or name not in given:
            what = "is missing" if name in names else "is none of the model's"
            raise InputError(f"the input {name!r} {what}", hint=hint)
        value = given[name]
        if not isinstance(value, np.ndarray):
            raise InputError(f"the input {name!r} is {shown(value)}", hint=hint)
        if value.dtype.kind in _NO_NUMBERS:
            raise InputError(f"the input {name!r} has the dtype {value.dtype}", hint=hint)
    return given


def named_inputs(artifact: Artifact | Built, inputs: Any) -> dict[str, Array]:
    """Inputs as a dict by name, from a dict, a tuple in order, or a single one."""
    names = [s.name for s in artifact.inputs]
    if isinstance(inputs, Mapping):
        return {k: as_array(f"input {k!r}", v) for k, v in inputs.items()}
    values = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if len(values) != len(names):
        raise InputError(
            f"the model has {counted(len(names), 'input')}; {were_given(len(values))}"
        )
    return {n: as_array(f"input {n!r}", v) for n, v in zip(names, values)}


def _compare_all(
    artifact: Artifact | Built,
    source: Source,
    trials: Sequence[Mapping[str, Array]],
    atol: float, rtol: float,
    seconds: float = math.inf,
    given: bool = False, strict: bool = False, fewest: int = 1,
) -> tuple[Report, list[Mapping[str, Array]]]:  # fmt: skip
    """Compare on each of the trials, or on as many as ``seconds`` allow, at least the ``fewest``.

    Returns the trials that were compared too: made-up ones that the source refuses are left out.
    Unless ``strict``, what rounding alone does to ill-conditioned inputs is allowed. Raises
    InvalidModelError where the source refuses its own example, or what was ``given``.
    """
    errors: list[OutputError] = []
    used: list[Mapping[str, Array]] = []
    notes = Notes()
    start, spent, previous = time.monotonic(), 0.0, 1
    for inputs in trials:
        grown = _elements(inputs) / max(1, previous)
        if len(used) >= fewest and time.monotonic() - start + spent * grown > seconds:
            break
        begin, previous = time.monotonic(), _elements(inputs)
        expected = expected_of(source, inputs, given, notes)
        if expected is None:
            continue
        errors += judged(artifact, source, inputs, expected, (atol, rtol), notes, strict)
        spent = time.monotonic() - begin
        used.append(inputs)
    cases = tuple(map(case_text, used))
    tolerance = {"atol": atol, "rtol": rtol}
    report = Report(
        tuple(errors), tolerance, cases, skipped=tuple(notes.skipped),
        ill_conditioned=tuple(notes.ill), source_off=tuple(notes.off),
    )  # fmt: skip
    return report, used


def _elements(inputs: Mapping[str, Array]) -> int:
    return sum(a.size for a in inputs.values())
