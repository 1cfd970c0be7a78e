"""Random graphs, compiled with fusion and without, against the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cuvil.ir.core import Module
from cuvil.ir.printer import print_module
from tests.codegen.agreement import disagreements, wrong_outputs
from tests.codegen.random_graphs import random_module
from tests.codegen.shrink import Case, shrink
from tests.ops.compiled import compile_module
from tests.ops.values import Array

_A_TEST = 5


def _wrong(module: Module, inputs: Mapping[str, Array], fusion: bool, opt_level: int) -> bool:
    """Whether the module compiled for itself disagrees on these inputs."""
    artifact = compile_module(module, fusion=fusion, opt_level=opt_level)
    return bool(wrong_outputs(artifact, module, inputs))


def _check(seed: int, fusion: bool, opt_level: int) -> None:
    module = random_module(seed)
    artifact = compile_module(module, fusion=fusion, opt_level=opt_level)
    for sizes, inputs, wrong in disagreements(artifact, module, seed):
        small = shrink(Case(module, inputs), lambda m, x: _wrong(m, x, fusion, opt_level))
        raise AssertionError(
            f"seed {seed}, {sizes}, fusion {fusion}: output {wrong[0][0]}: "
            f"{wrong[0][1]}\n{print_module(small.module)}"
        )


@pytest.mark.parametrize("fusion", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("start", range(0, 40, _A_TEST))
def test_random_graphs_agree_with_the_reference(start: int, fusion: bool) -> None:
    for seed in range(start, start + _A_TEST):
        _check(seed, fusion, 0)


@pytest.mark.parametrize("start", range(1000, 1010, _A_TEST))
def test_optimized_random_graphs_agree_with_the_reference(start: int) -> None:
    for seed in range(start, start + _A_TEST):
        _check(seed, True, 3)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(2000, 3000, 50))
def test_many_random_graphs_agree_with_the_reference(start: int) -> None:
    for seed in range(start, start + 50):
        _check(seed, seed % 3 > 0, 3 if seed % 5 == 0 else 0)
