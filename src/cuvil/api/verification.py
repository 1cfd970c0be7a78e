"""An artifact against its source, on inputs of a spread of shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.errors import InputError, VerificationError
from cuvil.ir.core import Module
from cuvil.runtime.artifact import Artifact
from cuvil.verify.inputs import make_inputs, spread_of_sizes
from cuvil.verify.report import OutputError, Report, compare

Array = np.ndarray[Any, Any]
ATOL, RTOL = 1e-5, 1e-3


@dataclass(frozen=True)
class Source:
    """The captured module, and the source model as a function of flat inputs by name."""

    module: Module
    run: Callable[[Mapping[str, Array]], list[Array]]
    examples: Mapping[str, Array]


def check_built(artifact: Artifact, source: Source) -> Report:
    """Verify a fresh build. Raises VerificationError when it disagrees with its source."""
    report = _compare_all(artifact, source, None, ATOL, RTOL)
    if not report.passed:
        raise VerificationError(
            f"the artifact disagrees with its model; {report}",
            report,
            hint="this is a fault of Cuvil: please report it; options={'fuel': N} bisects it",
        )
    return report


def verify_artifact(
    artifact: Artifact, inputs: Any, atol: float, rtol: float, layerwise: bool
) -> Report:
    """The body of :func:`cuvil.verify`."""
    source = artifact.source
    if not isinstance(source, Source):
        raise InputError(
            "this artifact was loaded without its source model",
            hint="verify what cuvil.compile returned",
        )
    given = None
    if inputs is not None:
        given = _named(artifact, inputs)
    return _compare_all(artifact, source, given, atol, rtol)


def _named(artifact: Artifact, inputs: Any) -> dict[str, Array]:
    names = [s.name for s in artifact.inputs]
    if isinstance(inputs, Mapping):
        return {k: np.asarray(v) for k, v in inputs.items()}
    values = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if len(values) != len(names):
        raise InputError(f"the model has {len(names)} inputs; {len(values)} were given")
    return {n: np.asarray(v) for n, v in zip(names, values)}


def _compare_all(
    artifact: Artifact, source: Source, given: Mapping[str, Array] | None, atol: float, rtol: float
) -> Report:
    errors: list[OutputError] = []
    cases: list[str] = []
    signature = artifact.manifest.signature
    if given is not None:
        trials = [dict(given)]
    else:
        rng = np.random.default_rng(0)
        trials = [
            make_inputs(signature, sizes, source.examples, rng)
            for sizes in spread_of_sizes(signature, source.examples)
        ]
    names = [s.name for s in artifact.outputs]
    for inputs in trials:
        expected = source.run(inputs)
        outputs = artifact.run(inputs)
        errors += compare(names, expected, [outputs[n] for n in names], atol, rtol)
        cases.append(", ".join(f"{n}{list(a.shape)}" for n, a in inputs.items()))
    return Report(tuple(errors), {"atol": atol, "rtol": rtol}, tuple(cases))
