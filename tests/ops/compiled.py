"""Many small calls compiled into one library and run at once.

A library has one entry, so a batch of calls becomes one module: every call has its own inputs, its
op and its outputs. ``compile_module`` is the way from a captured module to a loaded artifact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cuvil.codegen.module import generate
from cuvil.errors import CuvilError
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module
from cuvil.ir.types import TensorType, dtype_of
from cuvil.options import Options
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.runtime.artifact import Artifact
from cuvil.target.registry import find_target
from tests.ops.values import Array, Case
from tools.quick_build import quick_build


def compile_module(module: Module, *, fusion: bool = True, opt_level: int = 1) -> Artifact:
    """A captured module (left as it is) as a loaded artifact that runs on two threads."""
    folder = Options.from_environment().cache_dir
    return quick_build(module, folder, opt_level, passes=PassOptions(fusion), threads=2)


@dataclass(frozen=True)
class Call:
    """An op on a case's operands; those numbered in ``weights`` are constants of the module."""

    name: str
    case: Case
    weights: tuple[int, ...] = ()

    def __str__(self) -> str:
        suffix = f" weights {list(self.weights)}" if self.weights else ""
        return f"{self.name}{self.case}{suffix}"


@dataclass(frozen=True)
class Batch:
    """Calls that share a library."""

    calls: tuple[Call, ...]

    def module(self) -> Module:
        """One function whose outputs are the results of every call, in order."""
        e = Emitter()
        outputs, names = [], []
        for number, call in enumerate(self.calls):
            operands = [
                e.weight(a)
                if i in call.weights
                else e.input(f"x{number}_{i}", TensorType(a.shape, dtype_of(a.dtype)))
                for i, a in enumerate(call.case.arrays)
            ]
            for i, value in enumerate(e.results(call.name, *operands, **call.case.attrs)):
                outputs.append(value)
                names.append(f"y{number}_{i}")
        return e.finish(outputs, names)

    def inputs(self) -> dict[str, Array]:
        """The operands of every call by input name."""
        return {
            f"x{number}_{i}": a
            for number, call in enumerate(self.calls)
            for i, a in enumerate(call.case.arrays)
            if i not in call.weights
        }

    def run(self, *, fusion: bool = True, opt_level: int = 1) -> list[list[Array]]:
        """The results of each call. Raises CuvilError, with the culprits where one call alone
        can't be lowered either."""
        try:
            artifact = compile_module(self.module(), fusion=fusion, opt_level=opt_level)
        except CuvilError as error:
            raise CuvilError(f"{error}\n{self._culprits(fusion)}") from error
        outputs = artifact.run(self.inputs())
        counts = [sum(n.startswith(f"y{i}_") for n in outputs) for i in range(len(self.calls))]
        return [
            [np.asarray(outputs[f"y{i}_{k}"]) for k in range(count)]
            for i, count in enumerate(counts)
        ]

    def _culprits(self, fusion: bool) -> str:
        found = [_trouble(call, fusion) for call in self.calls]
        return "\n".join([text for text in found if text][:8])


def _trouble(call: Call, fusion: bool) -> str:
    """What one call alone is refused for."""
    try:
        lowered = lower(Batch((call,)).module(), "fused", PassOptions(fusion))
        generate(lowered, find_target("native"))
    except CuvilError as error:
        return f"{call}: {error}"
    return ""


def batches(calls: Sequence[Call], size: int) -> Iterator[Batch]:
    """The calls in batches of at most ``size``."""
    for start in range(0, len(calls), size):
        yield Batch(tuple(calls[start : start + size]))
