"""Every stage of a module is well formed, prints and parses, and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from cuvil.analysis.wellformed import check_graph
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module
from cuvil.ir.parser import parse_module
from cuvil.ir.printer import print_module
from cuvil.ir.types import F32, TensorType
from cuvil.ir.weights import weights_of
from cuvil.passes.pipeline import lower
from cuvil.reference.interpreter import run_module
from cuvil.sym.expr import symbol


def _model() -> Module:
    """A linear layer, gelu, softmax, layer norm, and a transposed exponential."""
    rng = np.random.default_rng(0)
    e = Emitter({"n": (1, None)})
    x = e.input("x", TensorType((symbol("n"), 24), F32))
    w = e.weight(rng.standard_normal((24, 16)).astype(np.float32), "w")
    y = e.op("gelu", e.with_scalar("add", e.op("matmul", x, w), 0.5))
    y = e.op("layer_norm", y, axes_from=1, eps=1e-5, has_weight=False, has_bias=False)
    y = e.op("softmax", y, axis=-1)
    return e.finish([e.op("exp", e.transpose(y, (1, 0)))], ["y"])


@pytest.mark.parametrize("stage", ["captured", "canonical", "fused"])
def test_each_stage_is_well_formed_and_computes_the_same(stage: str) -> None:
    inputs = {"x": np.random.default_rng(1).standard_normal((5, 24)).astype(np.float32)}
    (expected,) = run_module(_model(), inputs)
    module = lower(_model(), stage)
    assert module.stage == stage
    check_graph(module)
    text = print_module(module)
    again = parse_module(text, weights_of(module))
    assert print_module(again) == text
    for candidate in (module, again):
        (found,) = run_module(candidate, inputs)
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
