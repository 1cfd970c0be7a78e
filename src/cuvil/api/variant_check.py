"""How each version of a kernel is brought to run, to be verified."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.passes.variants import Variant, read_variant, when_text
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.ways import Ways
from cuvil.tune.retuner import RetunePlan
from cuvil.tune.watch import RETUNE
from cuvil.verify.inputs import sizes_inside, spread_of_sizes

log = logging.getLogger("cuvil")

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Asked:
    """A version of some kernel, and those that are asked before it."""

    version: Variant
    before: tuple[Variant, ...]

    def runs(self, sizes: Mapping[str, int]) -> bool:
        """Whether this one is run at these sizes."""
        return self.version.holds(sizes) and not any(other.holds(sizes) for other in self.before)


def versions_of(artifact: Artifact | Built) -> list[Asked]:
    """The versions of an artifact's kernels, those of one place in the table once."""
    found = {}
    for entries in (artifact.variants or {"kernels": {}})["kernels"].values():
        versions = tuple(map(read_variant, entries))
        texts = [when_text(version.when) for version in versions]
        for number, version in enumerate(versions):
            found[tuple(texts[: number + 1])] = Asked(version, versions[:number])
    return list(found.values())


def sizes_to_try(artifact: Artifact | Built, examples: Mapping[str, Array]) -> list[dict[str, int]]:
    """A spread of sizes, some among them for each version of a kernel."""
    signature = artifact.manifest.signature
    found = spread_of_sizes(signature, examples)
    for asked in versions_of(artifact):
        if any(asked.runs(sizes) for sizes in found):
            continue
        sizes = sizes_inside(signature, asked.version.when, asked.runs)
        if sizes is None:
            log.info("verification reaches no sizes with %s", when_text(asked.version.when))
        else:
            found.append(sizes)
    return found


def in_turn(
    artifact: Artifact | Built, trials: Sequence[Mapping[str, Array]]
) -> tuple[list[Mapping[str, Array]], int]:
    """Inputs, small ones first, but before all others one for each version of a kernel; and how
    many of those there are, at least 1."""
    left = sorted(trials, key=lambda inputs: sum(a.size for a in inputs.values()))
    first: list[Mapping[str, Array]] = []
    for asked in versions_of(artifact):
        runs = [asked.runs(artifact.native.symbols_for(inputs)) for inputs in (*first, *left)]
        if any(runs) and not any(runs[: len(first)]):
            first.append(left.pop(runs.index(True) - len(first)))
    return [*first, *left], max(1, len(first))


def each_way(artifact: Artifact | Built) -> Iterator[int]:
    """Let all kernels of an artifact that can be retuned run by the first of their other ways, then
    by the second and so on, or what is run elsewhere by its other runners; each is to be
    verified."""
    if isinstance(artifact, Built):
        yield from _each_runner(artifact)
        return
    tree = artifact.manifest.extra.get(RETUNE)
    if tree is None:
        return
    plan, table = RetunePlan.read(tree), Ways(artifact)
    for number in range(1, max((len(call.ways) for call in plan.calls), default=0)):
        for span, when in enumerate(plan.ranges):
            for place, call in enumerate(plan.calls):
                allowed = call.allowed(when, artifact.threads)
                table.choose(span, place, number if number in allowed else 0)
        yield number


def _each_runner(built: Built) -> Iterator[int]:
    first = built.runner
    try:
        for number, other in enumerate(() if first is None else first.others):
            if other.missing() is None:
                built.runner = other
                yield number
    finally:
        built.runner = first
