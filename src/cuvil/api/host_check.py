"""The steps of an artifact that run in Python, against those that were captured.

Both sides call the same functions (runtime/host.py): what this comparison shows is that the
artifact kept the steps, their attributes and the order of inputs and outputs. That the functions
are right is for their own tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cuvil.ir.core import Module
from cuvil.ir.signature import TensorSpec
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.host import STRING, HostPlan, string_input
from cuvil.verify.report import OutputError, Report

Array = np.ndarray[Any, Any]
_WORDS = ("word", "Word", "", "\N{LATIN CAPITAL LETTER E WITH ACUTE}t\u00e9")


def with_host_steps(
    report: Report,
    artifact: Artifact,
    module: Module,
    numbers: Mapping[str, Array],
    given: Mapping[str, Any],
) -> Report:
    """The report with the string outputs too, if the captured module has any.

    ``numbers`` are the numeric inputs by name, ``given`` has string inputs; what it lacks is made
    up, of stop words among others.
    """
    tree = module.call.get("host")
    if tree is None:
        return report
    plan = HostPlan.read(tree, artifact.native.manifest.signature)
    sizes: dict[str, int] = {}
    for spec in plan.inputs:
        known = numbers.get(spec.name, given.get(spec.name))
        sizes.update((d, n) for d, n in zip(spec.shape, np.shape(known)) if isinstance(d, str))
    strings = {
        spec.name: string_input(given.get(spec.name, _made_up(plan, spec, sizes)), spec)
        for spec in plan.inputs
        if spec.dtype == STRING
    }
    expected = plan.run(strings)
    found = artifact.run({**numbers, **strings})
    errors = tuple(_compare(name, want, found[name]) for name, want in expected.items())
    return replace(report, errors=report.errors + errors)


def _made_up(plan: HostPlan, spec: TensorSpec, sizes: dict[str, int]) -> Array:
    """Words in the order of a small vocabulary, which repeats. ``sizes`` are those of dims by name
    and learn new ones: what is left open is 1, but for the last dim, which takes every word."""
    stop = [w for step in plan.steps for w in step.attributes.get("stopwords", ())]
    words = [v for w in stop for v in (w, w.lower(), w.upper())] + list(_WORDS)
    open_sizes = [1] * (spec.rank - 1) + [len(words)]
    shape = []
    for dim, size in zip(spec.shape, open_sizes):
        named = isinstance(dim, str) and dim.isidentifier()
        shape.append(
            dim if isinstance(dim, int) else sizes.setdefault(dim, size) if named else size
        )
    return np.resize(np.array(words, dtype=object), shape)


def _compare(name: str, expected: Array, found: Array) -> OutputError:
    if expected.shape != found.shape:
        text = f"shape {list(found.shape)} instead of {list(expected.shape)}"
        return OutputError(name, expected.shape, np.inf, np.inf, 1, (), text)
    wrong = np.argwhere(expected != found)
    at = tuple(int(i) for i in wrong[0]) if len(wrong) else ()
    worst = float(bool(len(wrong)))
    return OutputError(name, expected.shape, worst, worst, len(wrong), at)
