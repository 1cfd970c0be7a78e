"""Tree ensembles of ai.onnx.ml: attributes to a graph of nodes, checked.

Raises InvalidModelError for whatever contradicts itself: lists of unequal length, nodes that are
named twice or not at all, cycles, features and targets out of range, leaves without a weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Node
from cuvil.frontends.onnx.types import tensor_array

Array = np.ndarray[Any, Any]
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
_MODES: Mapping[str, int] = MappingProxyType(
    {
        "BRANCH_LEQ": LEQ, "BRANCH_LT": LT, "BRANCH_GTE": GTE, "BRANCH_GT": GT, "BRANCH_EQ": EQ,
        "BRANCH_NEQ": NEQ, "LEAF": LEAF,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Trees:
    """Nodes of all trees; ``yes`` and ``no`` are positions of children.

    The weights are (leaf's position, target, weight). ``members`` has the sets of nodes of mode
    MEMBER by position.
    """

    mode: Array
    feature: Array
    threshold: Array
    yes: Array
    no: Array
    missing: Array
    roots: Array
    weight_leaf: Array
    weight_target: Array
    weight: Array
    members: Mapping[int, Array] = field(default_factory=dict)


def integers(n: Node, name: str, size: int | None = None) -> Array:
    """A list attribute as i64; an empty one where it is left out."""
    found = np.array(n.integers(name, []), dtype=np.int64)
    if size is not None and len(found) != size:
        raise InvalidModelError(f"{n.op}: {name} has {len(found)} entries, not {size}")
    return found


def numbers(n: Node, name: str, size: int | None = None) -> Array:
    """A list of floats, or the tensor ``{name}_as_tensor`` in its place."""
    tensor = n.attrs.get(f"{name}_as_tensor")
    if tensor is not None:
        found = tensor_array(tensor, n.folder).reshape(-1)
        if n.attrs.get(name) and found.size:
            raise InvalidModelError(f"{n.op}: {name} is given twice")
    if tensor is None or not found.size:
        found = np.array(n.attrs.get(name) or [], dtype=np.float32)
    if found.dtype.kind != "f":
        raise InvalidModelError(f"{n.op}: {name} is {found.dtype}")
    if size is not None and len(found) != size:
        raise InvalidModelError(f"{n.op}: {name} has {len(found)} entries, not {size}")
    return found


class _Names:
    """Positions of nodes by tree and node id."""

    def __init__(self, n: Node, trees: Array, nodes: Array) -> None:
        self.op = n.op
        self.trees, self.tree_rank = np.unique(trees, return_inverse=True)
        self.nodes, rank = np.unique(nodes, return_inverse=True)
        keys = self.tree_rank * len(self.nodes) + rank
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]
        if (self.keys[1:] == self.keys[:-1]).any():
            raise InvalidModelError(f"{n.op}: a node is defined twice")

    def find(self, trees: Array, nodes: Array, what: str) -> Array:
        """Positions of (tree, node) pairs."""
        tree, good = self._rank(self.trees, trees)
        node, known = self._rank(self.nodes, nodes)
        keys = tree * len(self.nodes) + node
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        wrong = ~(good & known)
        if len(keys):
            wrong |= self.keys[at] != keys if len(self.keys) else True
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidModelError(
                f"{self.op}: {what} names node {int(nodes[i])} of tree {int(trees[i])}, which is "
                "not there"
            )
        return self.order[at]

    @staticmethod
    def _rank(known: Array, asked: Array) -> tuple[Array, Array]:
        if not len(known):
            return np.zeros(len(asked), np.int64), np.zeros(len(asked), bool)
        at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return at, known[at] == asked


def read_trees(n: Node, kind: str) -> Trees:
    """The attributes of TreeEnsembleRegressor (``kind`` "target") or -Classifier ("class")."""
    texts = n.attrs.get("nodes_modes", [])
    unknown = sorted(set(texts) - set(_MODES))
    if unknown:
        raise InvalidModelError(f"{n.op}: there is no node mode {unknown[0]!r}")
    mode = np.array([_MODES[m] for m in texts], dtype=np.int64)
    size = len(mode)
    if size == 0:
        raise InvalidModelError(f"{n.op} has no nodes")
    tree, node = integers(n, "nodes_treeids", size), integers(n, "nodes_nodeids", size)
    names = _Names(n, tree, node)
    branch = np.flatnonzero(mode != LEAF)
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        ids = integers(n, name, size)
        child = np.zeros(size, np.int64)
        child[branch] = names.find(tree[branch], ids[branch], name)
        children.append(child)
    leaf = names.find(
        integers(n, f"{kind}_treeids"), integers(n, f"{kind}_nodeids"), f"{kind}_nodeids"
    )
    weights = numbers(n, f"{kind}_weights", len(leaf))
    # Weights of branches come from old converters; runtimes ignore them.
    real = mode[leaf] == LEAF
    _, first = np.unique(names.tree_rank, return_index=True)
    return Trees(
        mode, integers(n, "nodes_featureids", size), numbers(n, "nodes_values", size),
        children[0], children[1], _missing(n, size), np.sort(first),
        leaf[real], integers(n, f"{kind}_ids", len(leaf))[real], weights[real],
    )  # fmt: skip


def _missing(n: Node, size: int) -> Array:
    found = integers(n, "nodes_missing_value_tracks_true")
    if len(found) not in (0, size):
        message = f"nodes_missing_value_tracks_true has {len(found)} entries, not {size}"
        raise InvalidModelError(f"{n.op}: {message}")
    return found != 0 if len(found) else np.zeros(size, bool)


def read_ensemble(n: Node) -> Trees:
    """The attributes of TreeEnsemble: nodes first, leaves after them."""
    mode = _tensor(n, "nodes_modes").astype(np.int64)
    size = len(mode)
    if (mode < 0).any() or (mode > MEMBER).any():
        raise InvalidModelError(f"{n.op}: there is no node mode {int(mode.max())}")
    splits, weights = _tensor(n, "nodes_splits"), _tensor(n, "leaf_weights")
    if len(splits) != size or splits.dtype != weights.dtype:
        raise InvalidModelError(f"{n.op}: nodes_splits does not fit nodes_modes and leaf_weights")
    leaves = len(weights)
    children = []
    for branch in ("true", "false"):
        ids = integers(n, f"nodes_{branch}nodeids", size)
        at_leaf = integers(n, f"nodes_{branch}leafs", size) != 0
        if ((ids < 0) | (ids >= np.where(at_leaf, leaves, size))).any():
            raise InvalidModelError(f"{n.op}: nodes_{branch}nodeids has a node that is not there")
        children.append(np.concatenate([np.where(at_leaf, ids + size, ids), np.zeros(leaves, int)]))
    roots = integers(n, "tree_roots")
    if not len(roots) or (roots < 0).any() or (roots >= size).any():
        raise InvalidModelError(f"{n.op}: tree_roots has a node that is not there")
    pad = np.zeros(leaves)
    wide = np.float64 if splits.dtype == np.float64 else np.float32
    return Trees(
        np.concatenate([mode, np.full(leaves, LEAF)]),
        np.concatenate([integers(n, "nodes_featureids", size), pad.astype(np.int64)]),
        np.concatenate([splits, pad]).astype(wide),
        children[0], children[1], np.concatenate([_missing(n, size), pad != 0]), roots,
        size + np.arange(leaves), integers(n, "leaf_targetids", leaves), weights.astype(wide),
        _members(n, mode, wide),
    )  # fmt: skip


def _tensor(n: Node, name: str) -> Array:
    if n.attrs.get(name) is None:
        raise InvalidModelError(f"{n.op} needs the attribute {name!r}")
    return tensor_array(n.attrs[name], n.folder).reshape(-1)


def _members(n: Node, mode: Array, wide: Any) -> dict[int, Array]:
    """The sets of MEMBER nodes, in the order of the nodes, each closed by a NaN."""
    nodes = np.flatnonzero(mode == MEMBER)
    tensor = n.attrs.get("membership_values")
    values = np.zeros(0, wide)
    if tensor is not None:
        values = tensor_array(tensor, n.folder).reshape(-1).astype(wide)
    ends = np.flatnonzero(np.isnan(values))
    if len(values) and not np.isnan(values[-1]):  # the last NaN is sometimes left out
        ends = np.append(ends, len(values))
    if len(ends) != len(nodes):
        raise InvalidModelError(
            f"{n.op}: membership_values has {len(ends)} sets for {len(nodes)} nodes"
        )
    starts = [0, *(ends + 1)]
    return {int(node): values[a:b] for node, a, b in zip(nodes, starts, ends)}
