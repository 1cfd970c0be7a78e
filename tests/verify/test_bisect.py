"""A broken rule is found by bisection, by name and place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cuvil.api.verification import bisect_artifact
from cuvil.ir.core import Module, Op, Value
from cuvil.passes import decompose, pipeline
from cuvil.rewrite.rewriter import Fuel, Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, rule
from cuvil.verify.bisect import Culprit, bisect_meaning
from tests.verify.models import compiled, inputs


@rule("tanh-into-sin", "tanh")
def broken(op: Op, context: Context) -> Outcome:
    """tanh(x) -> sin(x), which is wrong"""

    def action(rw: Rewriter) -> Sequence[Value]:
        return [rw.value("sin", [op.operands[0]])]

    return action


@rule("shrug", "tanh")
def harmless(op: Op, context: Context) -> Outcome:
    """nothing -> nothing"""
    return Refusal("it never fires")


def test_nothing_is_found_where_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_CLEAN", [*pipeline._CLEAN, harmless])
    assert bisect_artifact(compiled(), inputs()) is None


def test_a_broken_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_CLEAN", [broken, *pipeline._CLEAN])
    culprit = bisect_artifact(compiled(verify=False), inputs())
    assert culprit is not None and culprit.label == "tanh-into-sin"
    assert culprit.place.startswith("cuvil.tanh at tanh")
    assert 1 <= culprit.number <= culprit.total and culprit.total > 3
    assert f"rewrite {culprit.number} of {culprit.total}" in str(culprit)


def test_a_broken_required_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(op: Op, context: Context) -> Outcome:
        return lambda rw: [rw.value("neg", [op.operands[0]])]

    wrong = replace(decompose.decompose_softmax, apply=apply)
    rules = [wrong if r is decompose.decompose_softmax else r for r in decompose.RULES]
    monkeypatch.setattr(decompose, "RULES", rules)
    culprit = bisect_artifact(compiled(verify=False), inputs())
    assert culprit is not None and culprit.label == wrong.name
    assert culprit.place.startswith("cuvil.softmax at softmax")


def test_a_rewrite_that_a_build_trips_over_is_found() -> None:
    """Every rewrite keeps the meaning; what is built after the transposes met is wrong."""
    artifact = compiled()
    source = artifact.source

    def build(fused: Module) -> object:
        inner = [op.short for op in fused.main.walk()]
        if "transpose" in inner:
            return source.build(fused)
        other = compiled(verify=False, enable_fusion=False)
        return _Off(other)

    artifact.source = replace(source, build=build)
    culprit = bisect_artifact(artifact, inputs())
    assert culprit is not None
    assert culprit.label in ("merge-transposes", "drop-identity")
    assert culprit.number >= 1


class _Off:
    """An artifact whose outputs are off by one."""

    def __init__(self, artifact: object) -> None:
        self.artifact = artifact

    def run(self, given: dict[str, object]) -> dict[str, object]:
        return {k: v + 1 for k, v in self.artifact.run(given).items()}  # type: ignore[attr-defined]


def test_what_was_wrong_from_the_start_is_said() -> None:
    artifact = compiled()
    culprit = bisect_meaning(artifact.source.module, lambda module: True)
    assert culprit == Culprit(0, culprit.total if culprit else 0, culprit.label, "")
    assert "before any optional rewrite" in str(culprit)
    artifact.source = replace(artifact.source, run=lambda given: [given["x"][:, :3] * 0])
    found = bisect_artifact(artifact, inputs())
    assert found is not None and "the captured program already differs" in str(found)


def test_fuel_stops_optional_rewrites_and_remembers_the_last() -> None:
    op = Op("cuvil.exp")
    fuel = Fuel(2)
    assert fuel.take("a", op) and fuel.last is None
    assert fuel.take("free", op, required=True) and fuel.left == 1
    assert fuel.take("b", op) and fuel.last is not None and fuel.last[0] == "b"
    assert not fuel.take("c", op) and fuel.take("free", op, required=True)
    strict = Fuel(1, strict=True)
    assert strict.take("a", op, required=True) and not strict.take("b", op, required=True)


@pytest.mark.parametrize("fuel", [0, 1, 3])
def test_a_module_compiles_and_is_right_with_little_fuel(fuel: int) -> None:
    assert compiled(options={"fuel": fuel, "opt_level": 1}) is not None
