"""Calls of the operators of classical models: ensembles of trees, coupled probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cuvil.ops.tree_tables import TreeGraph, pack_trees
from tests.ops.values import Array, Case, Rng, case

# rows, features, trees, splits of a tree
_SIZES = (
    (0, 3, 2, 4), (1, 1, 1, 0), (1, 5, 70, 9), (3, 4, 130, 3), (8, 2, 3, 1), (9, 40, 5, 60),
    (70, 300, 4, 200), (7, 3, 64, 2), (33, 7, 9, 20),
)  # fmt: skip


def random_graph(rng: Rng, features: int, trees: int, splits: int, dtype: Any) -> TreeGraph:
    """Trees grown at random leaves; some share their last branch, as converters have it."""
    rows: list[list[Any]] = []
    roots = []
    for _ in range(trees):
        roots.append(len(rows))
        rows.append([0, 0.0, 0, 0, True, False])
        leaves = [roots[-1]]
        for _ in range(splits):
            at = leaves.pop(int(rng.integers(len(leaves))))
            kids = [len(rows), len(rows) + 1]
            rows += [[0, 0.0, 0, 0, True, False] for _ in kids]
            threshold = rng.choice([0.0, -0.5, np.nan, np.inf]) if rng.random() < 0.1 else None
            threshold = float(rng.integers(-8, 9)) / 4 if threshold is None else threshold
            rows[at] = [int(rng.integers(features)), threshold, *kids, False, rng.random() < 0.5]
            leaves += kids
        if splits > 2:
            inner = [i for i in range(roots[-1], len(rows)) if not rows[i][4]]
            rows[inner[0]][2] = inner[-1]
    columns = list(zip(*rows, strict=True))
    return TreeGraph(
        np.array(columns[0]), np.array(columns[1], dtype), np.array(columns[2]),
        np.array(columns[3]), np.array(columns[4]), np.array(columns[5]),
        np.zeros(len(rows), dtype), np.array(roots),
    )  # fmt: skip


def _inputs(rng: Rng, rows: int, features: int, dtype: Any) -> Array:
    x = (rng.integers(-9, 10, (rows, features)) / 4).astype(dtype)
    wild = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e-40], (rows, features))
    return np.where(rng.random((rows, features)) < 0.15, wild, x).astype(dtype)


def _with(graph: TreeGraph, payload: Array, missing: bool) -> TreeGraph:
    kept = graph.missing if missing else np.zeros_like(graph.missing)
    return TreeGraph(
        graph.feature, graph.threshold, graph.no, graph.yes, graph.leaf, kept, payload, graph.roots
    )


def _leaves(rng: Rng, kind: str, graph: TreeGraph, targets: int, aggregate: str) -> Any:
    """What leaves hold, and the operands that say where their weights are."""
    dtype, count = graph.threshold.dtype, int(graph.leaf.sum())
    number = (np.cumsum(graph.leaf) - 1).clip(0).astype(np.uint32)
    if kind == "one":
        ids = rng.integers(0, targets, len(graph.roots)).astype(np.int32)
        return rng.standard_normal(len(number)).astype(dtype), [ids]
    if kind == "dense":
        dense = rng.standard_normal((count, targets)).astype(dtype)
        if aggregate != "sum":
            dense[rng.random(dense.shape) < 0.3] = np.nan
        return number, [dense]
    each = rng.integers(0, 4, count)
    starts = np.concatenate([[0], np.cumsum(each)]).astype(np.int32)
    total = int(starts[-1])
    ids = rng.integers(0, targets, total).astype(np.int32)
    return number, [starts, ids, rng.standard_normal(total).astype(dtype)]


def _ensembles(rng: Rng) -> Iterator[Case]:
    number = 0
    for dtype in (np.float32, np.float64):
        for rows, features, trees, splits in _SIZES:
            for kind in ("one", "dense", "sparse"):
                number += 1
                aggregate = ("sum", "min", "max")[number % 3]
                targets = (1, 3, 17)[number // 3 % 3]
                graph = random_graph(rng, features, trees, splits, dtype)
                payload, leaves = _leaves(rng, kind, graph, targets, aggregate)
                missing = number % 2 == 0
                graph = _with(graph, payload, missing)
                table = pack_trees(graph, features, narrow=number % 4 != 1)
                yield case(
                    _inputs(rng, rows, features, dtype), table.nodes, table.roots, *leaves,
                    targets=targets, aggregate=aggregate, leaves=kind, bits=table.bits,
                    missing=missing,
                )  # fmt: skip


def _coupled(rng: Rng) -> Iterator[Case]:
    for dtype in (np.float32, np.float64):
        for rows, classes in ((0, 3), (1, 2), (5, 3), (17, 4), (3, 11)):
            pairs = rng.random((rows, classes * (classes - 1) // 2)) * 0.98 + 0.01
            yield case(pairs.astype(dtype), classes=classes)


GENERATORS: dict[str, Callable[[Rng], Iterator[Case]]] = {
    "couple_pairs": _coupled,
    "tree_ensemble": _ensembles,
}
