"""Decision trees as one table: how an ensemble's nodes lie in memory.

A branch compares ``x[feature] <= threshold``; NaN compares false unless ``missing`` is set. Its two
children lie side by side, the one for "false" first, so a step is ``at += offset + bit``. A leaf
has offset 0 and compares the feature past the last, which is NaN: it steps onto itself.

A row of the table is 32-bit words. Narrow (f32): the threshold, then ``offset << (5 + bits) |
feature << 5 | missing``. Wide: the threshold (one word, or two for f64), ``feature << 5 |
missing``, the offset. In the place of its threshold a leaf has its weight, or the number of its
weights' row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FEATURE_SHIFT = 5
MOST_FEATURES = 1 << 26


@dataclass(frozen=True)
class TreeGraph:
    """Nodes of all trees, children by position; a node may have several parents.

    ``payload`` is what a leaf holds: floats of the thresholds' dtype, or row numbers.
    """

    feature: Array
    threshold: Array
    no: Array
    yes: Array
    leaf: Array
    missing: Array
    payload: Array
    roots: Array


@dataclass(frozen=True)
class NodeTable:
    """``nodes`` u32 [rows, words], ``roots`` i32 [trees]; ``bits`` of a feature, 0 if wide."""

    nodes: Array
    roots: Array
    bits: int


def tree_of(graph: TreeGraph) -> Array:
    """For each node the first tree that reaches it, -1 for none."""
    found = np.full(len(graph.leaf), -1, np.int64)
    front = np.unique(graph.roots)
    first = {int(r): t for t, r in reversed(list(enumerate(graph.roots)))}
    found[front] = [first[int(r)] for r in front]
    while len(front):
        front = front[~graph.leaf[front]]
        children = np.concatenate([graph.no[front], graph.yes[front]])
        labels = np.concatenate([found[front], found[front]])
        new = found[children] < 0
        front, at = np.unique(children[new], return_index=True)
        found[front] = labels[new][at]
    return found


def levels_of(graph: TreeGraph, reached: Array) -> Array:
    """The longest way from a root to each reached node. Raises ValueError for a cycle."""
    level = np.zeros(len(reached), np.int64)
    inner = np.flatnonzero(reached & ~graph.leaf)
    edges = np.concatenate([graph.no[inner], graph.yes[inner]])
    waiting = np.bincount(edges, minlength=len(reached))
    front = np.flatnonzero(reached & (waiting == 0))
    done, depth = 0, 0
    while len(front):
        level[front] = depth
        done += len(front)
        front = front[~graph.leaf[front]]
        children, counts = np.unique(
            np.concatenate([graph.no[front], graph.yes[front]]), return_counts=True
        )
        waiting[children] -= counts
        front = children[waiting[children] == 0]
        depth += 1
    if done != int(reached.sum()):
        raise ValueError("its nodes form a cycle")
    return level


def pack_trees(graph: TreeGraph, features: int, *, narrow: bool = True) -> NodeTable:
    """The table of an ensemble over ``features`` features, narrow where it fits and is allowed.

    Raises ValueError for a cycle, or for a table that is too large.
    """
    tree = tree_of(graph)
    level = levels_of(graph, tree >= 0)
    inner = np.flatnonzero((tree >= 0) & ~graph.leaf)
    trees = np.arange(len(graph.roots))
    # Two places each: a root (and one unused), or the children of a branch; level by level.
    key_tree = np.concatenate([trees, tree[inner]])
    key_level = np.concatenate([np.full(len(trees), -1), level[inner]])
    order = np.lexsort((key_level, key_tree))
    if 2 * len(order) >= 1 << 30:
        raise ValueError("it has too many nodes")
    place = np.empty(len(order), np.int64)
    place[order] = 2 * np.arange(len(order))
    node = np.full(2 * len(order), -1, np.int64)
    node[place[: len(trees)]] = graph.roots
    node[place[len(trees) :]] = graph.no[inner]
    node[place[len(trees) :] + 1] = graph.yes[inner]
    pair = np.zeros(len(graph.leaf), np.int64)
    pair[inner] = place[len(trees) :]
    roots = place[: len(trees)].astype(np.int32)
    return _filled(graph, node, pair, roots, features, narrow)


def _filled(
    graph: TreeGraph, node: Array, pair: Array, roots: Array, features: int, narrow: bool
) -> NodeTable:
    used = node >= 0
    branch = used & ~graph.leaf[node]
    offset = np.where(branch, pair[node] - np.arange(len(node)), 0)
    feature = np.where(branch, graph.feature[node], features)
    missing = np.where(branch, graph.missing[node], False)
    value = np.where(branch, graph.threshold[node], graph.threshold.dtype.type(0))
    words = _value_words(value, graph, node, used & ~branch)
    bits = max(int(features).bit_length(), 1)
    link = (feature << FEATURE_SHIFT | missing).astype(np.uint32)
    room = 1 << max(31 - FEATURE_SHIFT - bits, 0)
    narrow = narrow and words.shape[1] == 1
    if narrow and (-room <= offset).all() and (offset < room).all():
        both = (offset << (FEATURE_SHIFT + bits)).astype(np.int32).view(np.uint32) | link
        return NodeTable(np.column_stack([words, both]), roots, bits)
    wide = [words, link, offset.astype(np.int32).view(np.uint32)]
    return NodeTable(np.column_stack(wide).astype(np.uint32), roots, 0)


def _value_words(value: Array, graph: TreeGraph, node: Array, leaf: Array) -> Array:
    """Thresholds of branches and what leaves hold, as 32-bit words."""
    floats = graph.payload.dtype.kind == "f"
    if floats:
        value = np.where(leaf, graph.payload[node], value)
    words = np.ascontiguousarray(value).view(np.uint32).reshape(len(node), -1)
    if not floats:
        words[leaf] = 0
        words[leaf, 0] = graph.payload[node[leaf]]
    return words


def unpack_trees(nodes: Array, bits: int, wide: Any) -> Mapping[str, Array]:
    """The columns of a table: value, payload, feature, missing, offset. ``wide`` is the dtype."""
    size = np.dtype(wide).itemsize // 4
    value = np.ascontiguousarray(nodes[:, :size]).view(wide)[:, 0]
    link = nodes[:, size]
    offset = nodes[:, -1].view(np.int32) if bits == 0 else link.view(np.int32) >> (
        FEATURE_SHIFT + bits
    )
    feature = link >> FEATURE_SHIFT
    if bits:
        feature = feature & np.uint32((1 << bits) - 1)
    return {
        "value": value,
        "payload": nodes[:, 0],
        "feature": feature.astype(np.int64),
        "missing": (link & 1).astype(bool),
        "offset": offset.astype(np.int64),
    }
