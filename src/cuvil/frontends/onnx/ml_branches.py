"""Branches of every mode as branches on ``x <= threshold``, exactly.

``x < t`` is ``x <= t'`` for the float t' below t; the other orders exchange the children, and what
becomes of NaN with them. A test for members of a set is a search tree over the borders of its
values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.ml_trees import EQ, GT, GTE, LEAF, LT, MEMBER, NEQ, Trees
from cuvil.ops.tree_tables import TreeGraph

Array = np.ndarray[Any, Any]


def below(values: Array) -> Array:
    """The next smaller floats; NaN, which nothing is below or equal to, for -inf."""
    found = np.nextafter(values, values.dtype.type(-np.inf))
    return np.where(np.isneginf(values), values.dtype.type(np.nan), found)


def as_graph(trees: Trees, payload: Array) -> TreeGraph:
    """All nodes with thresholds alone. ``payload`` is what each node, if a leaf, holds."""
    mode, threshold = trees.mode, trees.threshold
    never = np.isnan(threshold)
    turned = ((mode == GTE) | (mode == GT)) & ~never
    lower = (mode == LT) | (mode == GTE)
    graph = _Growing(
        feature=trees.feature.copy(),
        threshold=np.where(lower & ~never, below(threshold), threshold),
        no=np.where(turned, trees.yes, trees.no),
        yes=np.where(turned, trees.no, trees.yes),
        missing=trees.missing ^ turned,
    )
    for node in np.flatnonzero((mode == EQ) | (mode == NEQ) | (mode == MEMBER)):
        values = trees.members.get(int(node), threshold[node : node + 1])
        graph.member(int(node), np.unique(values[~np.isnan(values)]), bool(mode[node] == NEQ))
    return graph.finish(mode == LEAF, payload, trees.roots)


class _Growing:
    """Columns of nodes that can become more."""

    def __init__(self, **columns: Array) -> None:
        self.columns = columns
        self.dtype = columns["threshold"].dtype
        self.count = len(columns["threshold"])
        self.added: list[tuple[int, Any, int, int, bool]] = []

    def _set(self, at: int, feature: int, threshold: Any, no: int, yes: int, missing: bool) -> None:
        if at >= self.count:
            self.added[at - self.count] = (feature, threshold, no, yes, missing)
            return
        row = zip(("feature", "threshold", "no", "yes", "missing"),
                  (feature, threshold, no, yes, missing))  # fmt: skip
        for name, value in row:
            self.columns[name][at] = value

    def _new(self) -> int:
        self.added.append((0, 0, 0, 0, False))
        return self.count + len(self.added) - 1

    def member(self, node: int, values: Array, negated: bool) -> None:
        """Make a node branch on whether x is one of ``values``, which are in order.

        NaN is none of them: it takes the branch for that, or the true one if the node says so.
        """
        feature = int(self.columns["feature"][node])
        yes, no = int(self.columns["yes"][node]), int(self.columns["no"][node])
        missing = bool(self.columns["missing"][node]) and not negated
        inside, outside = (no, yes) if negated else (yes, no)
        borders: list[Any] = []
        ends: list[int] = []
        for low, value in zip(below(values), values, strict=True):
            if not (np.isnan(low) or (borders and borders[-1] == low)):
                borders.append(low)
                ends.append(outside)
            elif ends:  # the value before ends right below this one
                borders.pop()
                ends.pop()
            borders.append(value)
            ends.append(inside)
        ends.append(outside)
        if not borders:
            self._set(node, feature, np.nan, no=outside, yes=inside, missing=missing)
            return
        if missing:
            rest = self._new()
            self._set(node, feature, np.inf, no=inside, yes=rest, missing=False)
            node = rest
        self._search(node, feature, borders, ends)

    def _search(self, node: int, feature: int, borders: list[Any], ends: list[int]) -> None:
        """A balanced search: x <= borders[i] and no smaller one goes to ends[i]."""
        todo = [(node, 0, len(borders))]
        while todo:
            at, low, high = todo.pop()
            middle = (low + high) // 2
            children = []
            for a, b in ((middle + 1, high), (low, middle)):
                child = ends[a]
                if a < b:
                    child = self._new()
                    todo.append((child, a, b))
                children.append(child)
            self._set(at, feature, borders[middle], children[0], children[1], False)

    def finish(self, leaf: Array, payload: Array, roots: Array) -> TreeGraph:
        """The graph with what was added."""
        extra = len(self.added)
        if self.count + extra >= 1 << 31:
            raise InvalidModelError("the ensemble has too many nodes")
        columns = dict(self.columns)
        if extra:
            parts = zip(*self.added, strict=True)
            for name, part in zip(("feature", "threshold", "no", "yes", "missing"), parts):
                added = np.array(part).astype(columns[name].dtype)
                columns[name] = np.concatenate([columns[name], added])
        return TreeGraph(
            columns["feature"], columns["threshold"], columns["no"], columns["yes"],
            np.concatenate([leaf, np.zeros(extra, bool)]), columns["missing"],
            np.concatenate([payload, np.zeros(extra, payload.dtype)]), roots,
        )  # fmt: skip
