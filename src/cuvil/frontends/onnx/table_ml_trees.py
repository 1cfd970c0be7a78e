"""Tree ensembles of ai.onnx.ml: regressors, classifiers, and the one of version 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.ml_branches import as_graph
from cuvil.frontends.onnx.ml_scores import (
    features,
    labels,
    refuse,
    rows,
    scores_output,
    top_class,
    transform_name,
    transformed,
    two_columns,
)
from cuvil.frontends.onnx.ml_trees import LEAF, Trees, numbers, read_ensemble, read_trees
from cuvil.frontends.onnx.node import Handler, Item, Node, Result
from cuvil.ir.core import Value
from cuvil.ir.types import F16, F64, dtype_of
from cuvil.ops.tree_tables import TreeGraph, pack_trees, tree_of

Array = np.ndarray[Any, Any]
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_MOST_TARGETS = 1 << 20


def _ensemble(n: Node, x: Value, trees: Trees, targets: int, aggregate: str) -> Value:
    """The sum, average, least or greatest of the leaves' weights, [N, targets]."""
    wide = np.result_type(x.type.dtype.numpy, trees.threshold.dtype, trees.weight.dtype)
    trees = replace(
        trees, threshold=trees.threshold.astype(wide), weight=trees.weight.astype(wide)
    )
    count = features(n, x)
    _check(n, trees, targets, count)
    leaf, target, weight = _distinct(trees, targets, aggregate)
    if aggregate in ("MIN", "MAX") and np.isnan(weight).any():
        raise InvalidModelError(f"{n.op}: a weight is NaN, which has no order")
    number = np.zeros(len(trees.mode), np.int64)
    number[trees.mode == LEAF] = np.arange(int((trees.mode == LEAF).sum()))
    graph = as_graph(trees, number.astype(np.uint32))
    label = tree_of(graph)
    lonely = graph.leaf & (label >= 0)
    lonely[leaf] = False
    if lonely.any():
        raise InvalidModelError(f"{n.op}: {int(lonely.sum())} leaves have no weight")
    one = _one_target(graph, label, leaf, target)
    if one is not None:
        payload = np.zeros(len(graph.leaf), wide)
        payload[leaf] = weight
        graph, kind, leaves = replace(graph, payload=payload), "one", [one]
    else:
        kind, leaves = _tables(number[leaf], target, weight, targets, aggregate)
    try:
        table = pack_trees(graph, count)
    except ValueError as error:
        raise InvalidModelError(f"{n.op}: {error}") from None
    e = n.e
    made = e.op(
        "tree_ensemble", e.cast(x, dtype_of(np.dtype(wide))), e.weight(table.nodes),
        e.weight(table.roots), *map(e.weight, leaves), targets=targets, leaves=kind,
        aggregate="sum" if aggregate == "AVERAGE" else aggregate.lower(), bits=table.bits,
        missing=bool(graph.missing.any()) or None,
    )  # fmt: skip
    return made if aggregate != "AVERAGE" else e.with_scalar("div", made, len(trees.roots))


def _check(n: Node, trees: Trees, targets: int, count: int) -> None:
    used = trees.feature[trees.mode != LEAF]
    if len(used) and not (used.min() >= 0 and used.max() < count):
        raise InvalidModelError(
            f"{n.op} reads features {int(used.min())} to {int(used.max())}; its input has {count}",
            where=str(n.e.loc),
        )
    ids = trees.weight_target
    if targets > _MOST_TARGETS:
        raise InvalidModelError(f"{n.op} has {targets} targets")
    if targets < 1 or (len(ids) and not (ids.min() >= 0 and ids.max() < targets)):
        raise InvalidModelError(f"{n.op}: its weights name targets outside of {targets}")


def _distinct(trees: Trees, targets: int, aggregate: str) -> tuple[Array, Array, Array]:
    """(leaf, target, weight) by leaf, with several weights of a leaf for a target as one."""
    keys = trees.weight_leaf * targets + trees.weight_target
    found, where = np.unique(keys, return_inverse=True)
    if aggregate in ("MIN", "MAX"):
        start = np.inf if aggregate == "MIN" else -np.inf
        weight = np.full(len(found), start, trees.weight.dtype)
        (np.minimum if aggregate == "MIN" else np.maximum).at(weight, where, trees.weight)
    else:
        weight = np.zeros(len(found), trees.weight.dtype)
        np.add.at(weight, where, trees.weight)
    return found // targets, found % targets, weight


def _one_target(graph: TreeGraph, label: Array, leaf: Array, target: Array) -> Array | None:
    """Each tree's target, where all of its leaves have one weight, for that target. ``leaf`` is in
    order."""
    if (leaf[1:] == leaf[:-1]).any():
        return None
    inner = np.flatnonzero((label >= 0) & ~graph.leaf)
    for child in (graph.no, graph.yes):
        if (label[child[inner]] != label[inner]).any():
            return None  # a part of two trees
    reached = label[leaf] >= 0
    of_tree = np.full(len(graph.roots), -1, np.int64)
    of_tree[label[leaf][reached]] = target[reached]
    if (of_tree[label[leaf][reached]] != target[reached]).any():
        return None
    return np.asarray(of_tree[label[graph.roots]].astype(np.int32))


def _tables(
    leaf: Array, target: Array, weight: Array, targets: int, aggregate: str
) -> tuple[str, Sequence[Array]]:
    """The weights by number of leaf, dense where that is not much more."""
    leaves = int(leaf.max()) + 1
    if leaves * targets <= 2 * len(weight) + 1024:
        missing = np.nan if aggregate in ("MIN", "MAX") else 0
        dense = np.full((leaves, targets), missing, weight.dtype)
        dense[leaf, target] = weight
        return "dense", [dense]
    starts = np.concatenate([[0], np.cumsum(np.bincount(leaf, minlength=leaves))])
    return "sparse", [starts.astype(np.int32), target.astype(np.int32), weight]


def _with_base(n: Node, scores: Value, base: Array) -> Value:
    if not len(base):
        return scores
    return n.e.map("add", scores, n.e.weight(base.astype(scores.type.dtype.numpy)))


def _regressor(n: Node) -> Result:
    aggregate, transform = n.text("aggregate_function", "SUM"), transform_name(n)
    if aggregate not in _AGGREGATES:
        raise InvalidModelError(f"{n.op}: there is no aggregate_function {aggregate!r}")
    targets = n.integer("n_targets")
    base = numbers(n, "base_values")
    if len(base) not in (0, targets):
        raise InvalidModelError(f"{n.op}: base_values has {len(base)} entries, not {targets}")
    scores = _ensemble(n, rows(n), read_trees(n, "target"), targets, aggregate)
    return scores_output(n.e, transformed(n.e, _with_base(n, scores, base), transform))


def _of_version_5(n: Node) -> Result:
    aggregate, transform = n.integer("aggregate_function", 1), n.integer("post_transform", 0)
    if not (0 <= aggregate < len(_AGGREGATES) and 0 <= transform < len(_TRANSFORMS)):
        raise InvalidModelError(f"{n.op}: aggregate_function or post_transform is out of range")
    x = rows(n)
    scores = _ensemble(
        n, x, read_ensemble(n), n.integer("n_targets", 1), _AGGREGATES[aggregate]
    )
    wanted = n.dtype() if n.dtype() in (F16, F64) else x.type.dtype
    return n.e.cast(transformed(n.e, scores, _TRANSFORMS[transform]), wanted)


def _classifier(n: Node) -> Result:
    classes, transform = labels(n, "classlabels_int64s"), transform_name(n)
    count = len(classes.values)
    trees, base = read_trees(n, "class"), numbers(n, "base_values")
    raw = _ensemble(n, rows(n), trees, count, "SUM")
    ids = np.unique(trees.weight_target)
    if count == 1:
        return _single(n, classes.texts, raw, base, transform)
    if count == 2 and len(ids) == 1:
        scores = _binary(n, raw, int(ids[0]), base, bool((trees.weight >= 0).all()), transform)
    elif len(base) in (0, count):
        scores = _with_base(n, raw, base)
    else:
        raise refuse(f"it has {len(base)} base values for {count} classes")
    label: Item = classes.of(n, top_class(n.e, scores))
    return [label, scores_output(n.e, transformed(n.e, scores, transform))]


def _binary(
    n: Node, raw: Value, column: int, base: Array, positive: bool, transform: str
) -> Value:
    """Two classes of which the leaves vote for one: their score is the second class's.

    Without a transform that makes probabilities of them, weights that are all positive are
    probabilities, and the first class's score is the rest.
    """
    if len(base) > 2:
        raise refuse(f"it has {len(base)} base values for 2 classes")
    score = n.e.slice(raw, 1, column, column + 1)
    score = _with_base(n, score, base[column : column + 1] if len(base) == 2 else base)
    complement = transform == "PROBIT" or (transform == "NONE" and positive)
    return two_columns(n.e, score, complement)


def _single(n: Node, texts: bool, raw: Value, base: Array, transform: str) -> Result:
    """One class: its label is 1 where the score is positive, else 0."""
    if texts:
        raise refuse("a single class with a label of text has no label for its absence")
    if len(base) > 1:
        raise refuse(f"it has {len(base)} base values for 1 class")
    scores = _with_base(n, raw, base)
    positive = n.e.with_scalar("gt", n.e.squeeze(scores, [1]), 0.0)
    label = n.e.cast(positive, dtype_of(np.dtype(np.int64)))
    return [label, scores_output(n.e, transformed(n.e, scores, transform))]


TABLE: dict[str, Handler] = {
    "TreeEnsemble": _of_version_5,
    "TreeEnsembleClassifier": _classifier,
    "TreeEnsembleRegressor": _regressor,
}
