"""A compiled random module against the reference interpreter, at every size that it is tried at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cuvil.errors import ShapeConstraintError
from cuvil.ir.core import Module
from cuvil.reference.interpreter import run_module
from cuvil.runtime.artifact import Artifact
from tests.codegen.noise import differences, noisy_runs
from tests.codegen.random_graphs import BINDINGS, random_inputs
from tests.ops.values import Array

Wrong = list[tuple[int, str]]  # the outputs that differ, and how


def wrong_outputs(artifact: Artifact, module: Module, inputs: Mapping[str, Array]) -> Wrong:
    """Where one call differs from the reference by more than roundings do; where the reference
    refuses the sizes, so must the artifact."""
    try:
        want = run_module(module, inputs)
    except ShapeConstraintError:
        try:
            artifact.run(dict(inputs))
        except ShapeConstraintError:
            return []
        return [(0, "computed for sizes that the reference refuses")]
    found = artifact.run(dict(inputs))
    got = [found[n] for n in module.main.output_names]
    return differences(got, want, noisy_runs(module, inputs))


def disagreements(
    artifact: Artifact, module: Module, seed: int
) -> Iterator[tuple[str, dict[str, Array], Wrong]]:
    """Sizes, inputs and wrong outputs of each call that is not right."""
    for number, sizes in enumerate(BINDINGS if module.main.symbols else BINDINGS[:1]):
        inputs = random_inputs(module, sizes, seed + number)
        if wrong := wrong_outputs(artifact, module, inputs):
            yield f"sizes {dict(sizes)}", inputs, wrong
