"""Random graphs in which parts have late sizes, compiled against the reference interpreter."""

from __future__ import annotations

import pytest

from cuvil.analysis.wellformed import check_graph
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module, Value
from cuvil.passes.pipeline import PassOptions, lower
from cuvil.sym.expr import product
from tests.codegen.agreement import disagreements
from tests.codegen.graph_pool import Graph, Made
from tests.codegen.random_graphs import MAKERS, is_float
from tests.ops.compiled import compile_module


def _exact(g: Graph, rank: int) -> Value | None:
    return g.pick(lambda v: is_float(v) and v.type.rank >= rank and g._is_exact(v))


def _picked_elements(g: Graph) -> Made:
    """The sum of a function of the elements above 0, and of as many numbers."""
    x = _exact(g, 1)
    if x is None:
        return None
    e = g.e
    at = e.positions(e.with_scalar("gt", x, 0), "picked", "the number of elements above 0")
    flat = e.reshape(x, [product(x.type.shape)])
    values = e.op(g._choose(["abs", "tanh", "neg"]), e.op("gather", flat, at, axis=0))
    if g.rng.random() < 0.5:
        numbers = e.cast(e.op("iota", shape=at.type.shape, axis=0, dtype=at.type.dtype),
                         x.type.dtype)  # fmt: skip
        values = e.op("add", values, numbers)
    return [(e.op("reduce_sum", values, axes=(0,), keepdims=False), False)]


def _picked_rows(g: Graph) -> Made:
    """The rows whose largest element is above 0.5, changed and put together again."""
    x = _exact(g, 2)
    if x is None:
        return None
    e, shape = g.e, x.type.shape
    axes = tuple(range(1, x.type.rank))
    best = e.op("reduce_max", x, axes=axes, keepdims=False)
    at = e.positions(e.with_scalar("gt", best, 0.5), "rows", "the number of rows above 0.5")
    rows = e.op("gather", x, at, axis=0)
    rows = e.op("neg", rows) if g.rng.random() < 0.5 else rows
    if g.rng.random() < 0.5:
        wide = e.broadcast(e.op("reduce_max", rows, axes=axes, keepdims=True), rows.type.shape)
        rows = e.op("max", rows, wide)
    kept = e.op("concat", rows, x, axis=0)
    return [(e.op("reduce_max", kept, axes=(0,), keepdims=False), True)] if shape[0] != 0 else None


def late_module(seed: int) -> Module:
    graph = Graph(seed, (*MAKERS, *[_picked_elements, _picked_rows] * 6))
    outputs = graph.outputs()
    return graph.e.finish(outputs, [f"y{i}" for i in range(len(outputs))])


def check(seed: int, fusion: bool, opt_level: int) -> bool:
    """Whether the module of a seed had late sizes; fails where it is compiled wrongly."""
    module = late_module(seed)
    check_graph(module)
    check_graph(lower(clone_module(module), "fused", PassOptions(fusion)))
    artifact = compile_module(module, fusion=fusion, opt_level=opt_level)
    for sizes, _, wrong in disagreements(artifact, module, seed):
        raise AssertionError(f"seed {seed}, {sizes}, fusion {fusion}: {wrong}")
    return bool(artifact.manifest.signature.late)


def test_random_graphs_with_late_parts() -> None:
    assert sum(check(seed, seed % 3 > 0, 0) for seed in range(5)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 500, 50))
def test_many_random_graphs_with_late_parts(start: int) -> None:
    for seed in range(start, start + 50):
        check(seed, seed % 3 > 0, 3 if seed % 5 == 0 else 0)
