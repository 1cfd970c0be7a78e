"""Random programs of branches and loops: the library does what the reference says."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.analysis.wellformed import check_graph
from cuvil.ir.clone import clone_module
from cuvil.ir.parser import parse_module
from cuvil.ir.printer import print_module
from cuvil.ir.weights import weights_of
from cuvil.passes.pipeline import lower
from cuvil.reference.interpreter import run_module
from tests.codegen.compile_graph import build, outputs_of
from tests.codegen.control_graphs import Programs, inputs

SEEDS = (*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 60)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_means_the_same_at_every_stage(seed: int) -> None:
    module = Programs(seed).module()
    check_graph(module)
    text = print_module(module)
    assert print_module(parse_module(text, weights_of(module))) == text
    lowered = lower(clone_module(module), "fused")
    check_graph(lowered)
    with build(module) as artifact:
        for n in (1, 3, 17):
            given = inputs(n, seed)
            want = run_module(module, given)
            stages = (run_module(lowered, given), outputs_of(artifact, module, given))
            for got in stages:
                for a, b in zip(got, want, strict=True):
                    np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
