"""The option ``tune``: seconds to measure for, or a table of what was measured."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cuvil.errors import InputError
from cuvil.errors.words import shown
from cuvil.ir.core import Module
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.cpu import cpu_name
from cuvil.runtime.profiler import call_seconds
from cuvil.target.base import Target
from cuvil.tune.store import Place
from cuvil.tune.table import TuningTable, open_table, read_table
from cuvil.tune.tuner import Measure
from cuvil.verify.inputs import make_inputs

Array = np.ndarray[Any, Any]
_HINT = "give seconds, such as 30; or a table: `compiled.tuning`, or the path of a file with one"


def tuning_asked(asked: object) -> float | TuningTable | None:
    """What the option means: seconds, a table, or None for no tuning.

    Raises InputError for anything else, and for a table that can't be read.
    """
    if asked is None:
        return None
    if isinstance(asked, (str, os.PathLike)):
        return open_table(asked)
    if isinstance(asked, Mapping):
        return read_table(asked)
    if isinstance(asked, bool) or not isinstance(asked, (int, float, np.integer, np.floating)):
        raise InputError(f"the option tune is {shown(asked)}", hint=_HINT)
    seconds = float(asked)
    if not math.isfinite(seconds) or seconds <= 0:
        raise InputError(f"the option tune is {shown(asked)}, no time to measure for", hint=_HINT)
    return seconds


def tuning_key(asked: object, threads: int) -> str:
    """What the option decides about an artifact, as text: a table's contents; of seconds also the
    machine and the number of threads, since the result is theirs."""
    meant = tuning_asked(asked)
    if isinstance(meant, TuningTable):
        return json.dumps(meant.as_dict(), sort_keys=True)
    return repr((meant, threads, cpu_name()))


def place_of(target: Target, threads: int, version: str) -> Place:
    """Where measuring happens."""
    return Place(cpu_name(), f"{target.triple} {target.mcpu}", threads, f"{version} {target!r}")


def measure_with(build: Callable[[Module], Artifact]) -> Measure:
    """Builds with ``build``, with a clock around each kernel, and runs on made-up inputs: normal
    numbers, and zeros for integers, which any index may be."""

    def measure(module: Module) -> Callable[[float], Array]:
        artifact = build(module)
        signature = artifact.manifest.signature
        ones = {spec.name: 1 for spec in signature.inputs}
        inputs = make_inputs(signature, {}, {}, np.random.default_rng(0), ones)
        return lambda seconds: call_seconds(artifact, inputs, seconds)

    return measure
