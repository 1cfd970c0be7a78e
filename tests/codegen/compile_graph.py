"""Compiles modules and runs them: every pass, the C++ compiler, a package, a load and a call."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module
from cuvil.ir.types import TensorType, dtype_of
from cuvil.passes.pipeline import PassOptions
from cuvil.reference.interpreter import run_module
from cuvil.runtime.artifact import Artifact
from tests.ops.values import Case
from tools.quick_build import quick_build

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Objects and packages of this process; removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="cuvil-graphs-")


def build(module: Module, options: PassOptions | None = None, threads: int = 1) -> Artifact:
    """The loaded artifact of a captured module, which is left as it is."""
    return quick_build(module, Path(_folder().name), 3, passes=options, threads=threads)


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
