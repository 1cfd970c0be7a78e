"""Each rewrite rule on small functions: what it makes of them, or why it refuses."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from cuvil.analysis.wellformed import check_graph
from cuvil.ir.core import Module
from cuvil.passes import (
    algebra,
    attention,
    codes,
    contraction,
    control,
    decompose,
    equal_sizes,
    fold,
    layout,
    movement,
    transposed,
)
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.driver import apply_rules
from cuvil.rewrite.rewriter import Rewriter, Trace
from cuvil.rewrite.rule import Context, Refusal, Rule
from cuvil.sym.expr import evaluate
from cuvil.sym.facts import Facts
from tests.ops.values import Array
from tests.passes.text_cases import TextCase, block_of, module_of, read_cases

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        *movement.RULES, *fold.RULES, *algebra.RULES, *decompose.RULES, *attention.RULES,
        *attention.OUTPUT_RULES, *contraction.FOLD_RULES, *contraction.MERGE_RULES,
        *contraction.BIAS_RULES,
        *layout.TURN_RULES, *layout.SINK_RULES, *control.RULES, *equal_sizes.RULES,
        *codes.RULES, *transposed.rules(32),
    )
}  # fmt: skip
CASES = list(read_cases())
_SIZES = {"n": 5, "m": 3}


def _apply(case: TextCase) -> tuple[Module, Trace]:
    module, trace = case.module, Trace(detailed=True)
    apply_rules(Rewriter(module.main, trace=trace), [RULES[case.rule]])
    return module, trace


def _inputs(module: Module) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    found = {}
    for name, value in zip(module.main.input_names, module.main.inputs, strict=True):
        shape = [evaluate(d, _SIZES) for d in value.type.shape]
        numbers = (
            rng.standard_normal(shape) if value.type.dtype.is_float else rng.integers(0, 2, shape)
        )
        found[name] = np.asarray(numbers).astype(value.type.dtype.numpy)
    return found


@pytest.mark.parametrize("case", [c for c in CASES if c.after], ids=lambda c: c.place)
def test_a_rule_fires(case: TextCase) -> None:
    module, trace = _apply(case)
    assert trace.fired[case.rule]
    check_graph(module)
    assert block_of(module) == case.after
    inputs = _inputs(module)
    for got, want in zip(
        run_module(module, inputs, _SIZES), run_module(case.module, inputs, _SIZES), strict=True
    ):
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("case", [c for c in CASES if not c.after], ids=lambda c: c.place)
def test_a_rule_refuses(case: TextCase) -> None:
    _, trace = _apply(case)
    assert not trace.fired
    assert refusal(case.module, RULES[case.rule]) == case.reason


def refusal(module: Module, rule: Rule) -> str:
    """Why the rule refuses each op that it could start at, in order."""
    context = Context(Facts(module.main.symbols))
    outcomes = [rule.apply(o, context) for o in module.main.body.ops if o.short in rule.roots]
    return " | ".join(o.reason for o in outcomes if isinstance(o, Refusal))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.place)
def test_texts_are_what_the_printer_writes(case: TextCase) -> None:
    for text in (case.before, case.after):
        if text is not None:
            assert block_of(module_of(text)).strip() == text.strip()


def test_every_rule_has_its_cases() -> None:
    fires = {c.rule for c in CASES if c.after}
    refuses = {c.rule for c in CASES if not c.after}
    assert not sorted(set(RULES) - fires)
    may_refuse = {n for n, r in RULES.items() if "Refusal(" in inspect.getsource(r.apply)}
    assert not sorted(may_refuse - refuses)
    assert not sorted((fires | refuses) - set(RULES))


def test_an_operator_whose_other_user_is_gone_is_tried_again() -> None:
    """scale-before-shift leaves the old sum dead; only without it may the scale be a weight's."""
    (case,) = [c for c in CASES if c.rule == "scale-before-shift" and c.after][:1]
    module = case.module
    apply_rules(Rewriter(module.main), contraction.FOLD_RULES)
    assert "cuvil.mul" not in [op.name for op in module.main.body.ops]
