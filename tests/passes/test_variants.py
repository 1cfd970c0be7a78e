"""Which versions of a kernel are asked for, and what stands in the module then."""

from __future__ import annotations

import pytest

from cuvil.frontends.emitter import Emitter
from cuvil.ir.core import Module
from cuvil.ir.parser import parse_module
from cuvil.ir.printer import print_module
from cuvil.ir.types import F32, TensorType
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.passes.tuning import fused_ops, kernel_key
from cuvil.passes.variants import Variant, VariantPlan, variants_of, when_text
from cuvil.rewrite.rewriter import Trace
from cuvil.sym.expr import symbol

PLAN = VariantPlan({"n": ((1, 2), (16, None))})


def row_sums() -> Module:
    e = Emitter({"n": (1, None)})
    x = e.input("x", TensorType((4, symbol("n")), F32))
    return e.finish([e.op("reduce_sum", x, axes=(1,), keepdims=False)], ["y"])


def test_the_text_before_and_after() -> None:
    before, trace = print_module(lower(row_sums(), "fused")), Trace()
    after = print_module(lower(row_sums(), "fused", PassOptions(variants=PLAN, trace=trace)))
    end = '"sum"} : (!cuvil.tensor<[4, n] x f32>)'
    assert before.count(end) == 1
    versions = "[{when = {n = array<i64: 1, 2>}}, {when = {n = [16 : i64, unit]}}]"
    assert after == before.replace(end, end.replace("}", f", variants = {versions}}}"))
    assert trace.fired["variants"] == 1
    assert print_module(parse_module(after)) == after


def test_versions_are_read_back_from_text() -> None:
    module = lower(row_sums(), "fused", PassOptions(variants=PLAN))
    again = parse_module(print_module(module))
    for read in (module, again):
        (op,) = fused_ops(read)
        assert [v.when for v in variants_of(op)] == [{"n": (1, 2)}, {"n": (16, None)}]


def test_a_kernel_without_the_symbol_has_none() -> None:
    module = lower(row_sums(), "fused", PassOptions(variants=VariantPlan({"m": ((1, 2),)})))
    assert all(not variants_of(op) for op in fused_ops(module))


def test_several_symbols_make_every_combination_the_narrowest_first() -> None:
    plan = VariantPlan({"a": ((1, 2), (4, 8)), "b": ((3, 4),)})
    assert [when_text(when) for when in plan.cells(["a", "b"])] == [
        "a = 1, b = 3", "4 <= a < 8, b = 3", "a = 1", "4 <= a < 8", "b = 3"
    ]  # fmt: skip
    assert plan.cells(["b"]) == [{"b": (3, 4)}]


def test_what_was_measured_stands_for_the_ranges() -> None:
    (op,) = fused_ops(lower(row_sums(), "fused"))
    key = kernel_key(op, {"n": (1, None)})
    measured = {key: (Variant({"n": (1, 2)}, {"serial": True}),)}
    module = lower(row_sums(), "fused", PassOptions(variants=VariantPlan(PLAN.ranges, measured)))
    (op,) = fused_ops(module)
    assert variants_of(op) == (Variant({"n": (1, 2)}, {"serial": True}),)


@pytest.mark.parametrize(("size", "found"), [(1, True), (2, False), (15, False), (16, True)])
def test_a_range_ends_before_its_second_number(size: int, found: bool) -> None:
    assert any(Variant(when).holds({"n": size}) for when in PLAN.cells(["n"])) is found
