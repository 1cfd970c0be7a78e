"""Kernels with versions for ranges of sizes: right on both sides of each end, and no more code
than allowed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cuvil.codegen import versions
from cuvil.codegen.module import Generated, generate
from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module
from cuvil.ir.types import F32, TensorType
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.passes.variants import VariantPlan
from cuvil.sym.expr import symbol
from cuvil.target.registry import find_target
from tests.codegen.compile_graph import build

PLAN = VariantPlan({"n": ((4, 5), (16, 17), (17, 33)), "m": ((1, 2),)})
V4 = find_target("x86_64_v4")


def soft_rows() -> Module:
    """Of x [m, n]: the softmax of rows, turned; and sums of squares along columns."""
    e = Emitter({"m": (1, 64), "n": (1, None)})
    x = e.input("x", TensorType((symbol("m"), symbol("n")), F32))
    soft = e.op("softmax", x, axis=1)
    turned = e.op("transpose", e.op("mul", soft, soft), perm=(1, 0))
    sums = e.op("reduce_sum", e.op("mul", x, x), axes=(0,), keepdims=False)
    return e.finish([turned, sums], ["turned", "sums"])


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In f64, by NumPy alone."""
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    soft = powers / powers.sum(1, keepdims=True)
    return (soft * soft).T, (wide * wide).sum(0)


def generated(module: Module, plan: VariantPlan | None = PLAN) -> Generated:
    return generate(lower(module, "fused", PassOptions(variants=plan)), V4)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_version_is_right_at_its_ends(threads: int) -> None:
    with build(soft_rows(), PassOptions(variants=PLAN), threads) as artifact:
        for m in (1, 2, 64):
            for n in (1, 3, 4, 5, 15, 16, 17, 18, 31, 32, 33, 100):
                x = np.random.default_rng(n).standard_normal((m, n)).astype(np.float32)
                found = artifact.run({"x": x})
                for got, want in zip(found.values(), expected(x), strict=True):
                    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def test_the_entry_asks_the_narrowest_first_and_nothing_in_vain() -> None:
    made = generated(soft_rows())
    entry = made.sources["model.cpp"]
    tests = re.findall(r"if \((n_.*)\)\n", entry)
    assert "n_n == 4 && n_m == 1" in tests or "n_n == 4" in tests
    for number, kept in made.dispatched.items():
        name = made.calls[number][0]
        assert name in {made.calls[n][0] for n in made.dispatched}
        texts = [tuple(sorted(v.when.items())) for _, v in kept]
        assert len(set(texts)) == len(texts)
        for place, (_, version) in enumerate(kept):  # what is narrower stands before
            later = [v.when.items() for _, v in kept[place + 1 :]]
            assert not any(version.when.items() < other for other in later)
    # A bound alone proves nothing here, so no code differs in that range.
    assert not any("n_n >= 17" in text for text in tests)


def test_the_text_is_the_same_each_time_and_without_the_option_as_before() -> None:
    assert generated(soft_rows()).sources == generated(soft_rows()).sources
    plain = generated(soft_rows(), None)
    empty = generated(soft_rows(), VariantPlan({"k": ((1, 2),)}))
    assert plain.sources == empty.sources and not plain.dispatched


def test_a_product_alone_has_no_versions() -> None:
    """Its loops are the native template's, which takes sizes as arguments."""
    e = Emitter({"m": (1, 64)})
    x = e.input("x", TensorType((symbol("m"), 64), F32))
    w = e.weight(np.ones((64, 32), np.float32))
    made = generated(e.finish([e.op("matmul", x, w)], ["y"]))
    assert not made.dispatched and made.left_out == 0


def test_versions_are_no_more_code_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = VariantPlan({"n": tuple((k, k + 1) for k in range(1, 41))})
    plain, whole = generated(soft_rows(), None), generated(soft_rows(), plan)
    versions_text = versions.LEAST_TEXT
    monkeypatch.setattr(versions, "LEAST_TEXT", 0)
    least = generated(soft_rows(), plan)
    assert 0 < whole.left_out < least.left_out
    size = [sum(len(text) for text in bodies(g)) for g in (plain, whole, least)]
    around = 1.2  # declarations of arguments, which the budget does not count
    assert size[1] - size[0] <= around * versions_text and size[2] <= 2 * around * size[0]
    # The largest sizes cost the most, so they are kept.
    kept = {v.when["n"][0] for found in least.dispatched.values() for _, v in found}
    assert kept and min(kept) > 20


def bodies(made: Generated) -> list[str]:
    """The functions of kernels, without what is written around them for each."""
    units = [text for name, text in made.sources.items() if name.startswith("kernels")]
    return [part for text in units for part in re.split(r"\nnamespace k_\w+ \{\n", text)[1:]]
