"""Decisions of fusion's grouping."""

from __future__ import annotations

from cuvil.frontends.emitter import Emitter
from cuvil.ir.types import F32, TensorType
from cuvil.passes.grouping import Grouping
from cuvil.passes.pipeline import PassOptions, lower
from tests.passes.text_cases import module_of, read_cases


def test_values_shared_along_a_chain_are_looked_at_once() -> None:
    """Each step reads the one before twice: 2**60 paths lead to the first."""
    e = Emitter()
    x = e.input("x", TensorType((4,), F32))
    line = e.op("iota", shape=(4,), axis=0, dtype=F32)
    for _ in range(60):
        line = e.op("add", line, line)
    out = e.op("mul", x, line)
    module = e.finish([out], ["y"])
    grouping = Grouping(module.main.body)
    assert grouping.floats(line.op)
    assert not grouping.floats(out.op)


def test_where_a_group_ends_is_told() -> None:
    e = Emitter()
    x = e.input("x", TensorType((4, 8), F32))
    w = e.input("w", TensorType((8, 8), F32))
    product = e.op("matmul", e.op("exp", x), w)
    total = e.op("reduce_sum", product, axes=(1,), keepdims=True)
    turned = e.op("sqrt", e.op("transpose", product, perm=(1, 0)))
    module = e.finish([total, turned], ["y", "z"])
    grouping = Grouping(module.main.body)
    told = {
        op.short: [(read.short, why) for _, read, why in grouping.stops(grouping.of[id(op)])]
        for op in (product.op, total.op, turned.op)
    }
    assert told == {
        "matmul": [("exp", "a contraction reads its operands from memory")],
        "reduce_sum": [("matmul", "a contraction's finished tiles take maps, and no reduction")],
        "sqrt": [("matmul", "it is read through a movement")],
    }


def test_a_map_says_why_it_joins_no_kernel() -> None:
    e = Emitter()
    x = e.input("x", TensorType((4, 8), F32))
    row = e.op("reduce_sum", x, axes=(1,), keepdims=True)
    other = e.op("reduce_max", x, axes=(0,), keepdims=True)
    module = e.finish([e.op("sqrt", row), e.op("exp", other)], ["y", "z"])
    assert not any(Grouping(module.main.body).refusals.values())  # both join
    plain = Grouping(module.main.body, enable=False)
    assert {why for found in plain.refusals.values() for _, why in found} == {"fusion is off"}


def test_sizes_that_are_equal_by_a_constraint_need_one_kernel() -> None:
    """A gated sum of [n, 3], read as [m + 2, 3]."""
    case = next(c for c in read_cases() if c.rule == "lift-equal-sizes" and c.after)
    for enabled, kernels in ((True, 1), (False, 3)):
        module = lower(module_of(case.before), "fused", PassOptions(enable_fusion=enabled))
        assert sum(op.short == "fused" for op in module.main.body.ops) == kernels
