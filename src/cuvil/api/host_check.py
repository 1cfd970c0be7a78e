"""The steps of an artifact that run in Python, against those that were captured.

Both sides call the same functions (runtime/host.py): what this comparison shows is that the
artifact kept the steps, their attributes and the order of inputs and outputs. That the functions
are right is for their own tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuvil.ir.core import Module
from cuvil.ir.signature import TensorSpec
from cuvil.reference.interpreter import run_module
from cuvil.runners.built import Built
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.host import STRING, HostPlan, string_input
from cuvil.verify.report import OutputError, Report

Array = np.ndarray[Any, Any]
_WORDS = ("word", "Word", "", "\N{LATIN CAPITAL LETTER E WITH ACUTE}t\u00e9")
_NUMBERS = ("7", "0", "12", "1")


def with_host_steps(
    report: Report,
    artifact: Artifact | Built,
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
    public = _public_inputs(plan, numbers, given)
    found = artifact.run(public)
    expected: dict[str, Any] = dict(plan.run(public))
    if plan.coded or plan.zipped:
        # The numbers of strings depend on the order they come in: those of this very call.
        codes = plan.codes()
        library = plan.numbers(public, codes)
        names = module.main.output_names
        expected.update(plan.decoded(dict(zip(names, run_module(module, library))), codes))
    errors = tuple(_compare(name, want, found[name]) for name, want in expected.items())
    return replace(report, errors=report.errors + errors)


def _public_inputs(
    plan: HostPlan, numbers: Mapping[str, Array], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Inputs as a caller has them, from the library's: strings and maps as such."""
    sizes: dict[str, int] = {}
    for spec in plan.inputs:
        known: Any = numbers.get(plan.coded.get(spec.name, spec.name), given.get(spec.name))
        sizes.update((d, n) for d, n in zip(spec.shape, np.shape(known)) if isinstance(d, str))
    public: dict[str, Any] = {}
    for spec in plan.inputs:
        if spec.name in plan.maps:
            public[spec.name] = _map_of_rows(plan, spec.name, numbers)
        elif spec.name in plan.coded:
            public[spec.name] = _decoded(plan, numbers[plan.coded[spec.name]])
        elif spec.dtype == STRING:
            value = given.get(spec.name, _made_up(plan, spec, sizes))
            public[spec.name] = string_input(value, spec)
        else:
            public[spec.name] = numbers[spec.name]
    return public


def _decoded(plan: HostPlan, numbers: Array) -> Array:
    """Strings of numbers, made up where the model names none."""
    words = list(plan.words)
    flat = [words[i] if i < len(words) else f"word {i}" for i in numbers.reshape(-1)]
    out = np.empty(numbers.shape, dtype=object)
    out.reshape(-1)[:] = flat
    return out


def _map_of_rows(plan: HostPlan, name: str, numbers: Mapping[str, Array]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    spec = plan.maps[name]
    for column, keys in spec.columns:
        row = numbers[column][0]
        found.update(zip(keys, _decoded(plan, row) if spec.value == "STRING" else row.tolist()))
    return found


def _made_up(plan: HostPlan, spec: TensorSpec, sizes: dict[str, int]) -> Array:
    """Words in the order of a small vocabulary, which repeats; digits where they are read as
    numbers. ``sizes`` are those of dims by name and learn new ones."""
    if spec.name in _read_as_numbers(plan):
        return _repeated(_NUMBERS, spec, sizes)
    stop = [w for step in plan.steps for w in step.attributes.get("stopwords", ())]
    words = [v for w in stop for v in (w, w.lower(), w.upper())] + list(_WORDS)
    return _repeated(words, spec, sizes)


def _read_as_numbers(plan: HostPlan) -> set[str]:
    """The values that end up, as they are or changed, where a step reads a number."""
    found: set[str] = set()
    for step in reversed(plan.steps):
        if step.op == "text_to_number" or found & set(step.outputs):
            found |= set(step.inputs)
    return found


def _repeated(words: Sequence[str], spec: TensorSpec, sizes: dict[str, int]) -> Array:
    """The words in order, over and over; what is left open is 1, but for the last dim, which takes
    every word."""
    open_sizes = [1] * (spec.rank - 1) + [len(words)]
    shape = []
    for dim, size in zip(spec.shape, open_sizes):
        named = isinstance(dim, str) and dim.isidentifier()
        shape.append(
            dim if isinstance(dim, int) else sizes.setdefault(dim, size) if named else size
        )
    return np.resize(np.array(words, dtype=object), shape)


def _compare(name: str, expected: Any, found: Any) -> OutputError:
    if isinstance(expected, list):
        expected, found = _of_maps(expected), _of_maps(found)
    if expected.shape != found.shape:
        text = f"shape {list(found.shape)} instead of {list(expected.shape)}"
        return OutputError(name, expected.shape, np.inf, np.inf, 1, (), text)
    wrong = np.argwhere(expected != found)
    if expected.dtype.kind == "f":
        wrong = np.argwhere(~np.isclose(found, expected, 1e-3, 1e-5, equal_nan=True))
    at = tuple(int(i) for i in wrong[0]) if len(wrong) else ()
    worst = float(bool(len(wrong)))
    return OutputError(name, expected.shape, worst, worst, len(wrong), at)


def _of_maps(maps: list[dict[Any, float]]) -> Array:
    """The numbers of a list of dicts, by the order of their keys."""
    return np.array([[m[key] for key in sorted(m)] for m in maps], dtype=np.float64)
