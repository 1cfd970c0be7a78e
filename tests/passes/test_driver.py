"""Rules are applied until none fires, however deep their patterns are."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvil.frontends.emitter import Emitter
from cuvil.frontends.torch_export import capture_torch
from cuvil.ir.core import Module
from cuvil.ir.types import F32, TensorType
from cuvil.passes import contraction, fold, movement
from cuvil.passes.pipeline import lower
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.driver import apply_rules
from cuvil.rewrite.rewriter import Rewriter
from tests.e2e.c_models import keyword_spotting

Array = np.ndarray[Any, Any]
RULES = [*contraction.FOLD_RULES, *fold.RULES, *movement.RULES]


def _normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _shifted() -> tuple[Module, list[Array]]:
    """((x w + b) * s + c) * t + d: its first sum is seen from the last when products are gone."""
    w, b, s, c, t, d = (_normal(i, *([3, 4] if i == 0 else [4])) for i in range(6))
    e = Emitter({})
    y = e.op("matmul", e.input("x", TensorType((5, 3), F32)), e.weight(w))
    for name, constant in zip(("add", "mul", "add", "mul", "add"), (b, s, c, t, d), strict=True):
        y = e.map(name, y, e.weight(constant))
    return e.finish([y], ["y"]), [w, b, s, c, t, d]


def test_shifts_that_meet_late_are_merged() -> None:
    module, (w, b, s, c, t, d) = _shifted()
    assert apply_rules(Rewriter(module.main), RULES) > 0
    names = [op.short for op in module.main.body.ops]
    assert names.count("add") == 1 and "mul" not in names
    x = _normal(9, 5, 3)
    expected = ((x.astype(np.float64) @ w + b) * s + c) * t + d
    (found,) = run_module(module, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_nothing_is_left_to_do() -> None:
    module, _ = _shifted()
    apply_rules(Rewriter(module.main), RULES)
    assert apply_rules(Rewriter(module.main), RULES) == 0


def test_a_normalised_convolution_has_one_bias() -> None:
    model, x = keyword_spotting(4)
    module = lower(capture_torch(model, (x,)), "canonical")
    assert [op.short for op in module.main.body.ops].count("add") == 10  # 9 convolutions, 1 layer
