"""Ensembles of trees evaluated node by node from their attributes, as the specification says it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "BRANCH_LEQ": lambda x, t: x <= t, "BRANCH_LT": lambda x, t: x < t,
    "BRANCH_GTE": lambda x, t: x >= t, "BRANCH_GT": lambda x, t: x > t,
    "BRANCH_EQ": lambda x, t: x == t, "BRANCH_NEQ": lambda x, t: x != t,
    "BRANCH_MEMBER": lambda x, t: x in t,
}  # fmt: skip
_NAMES = list(_TESTS)


def attributes(model: onnx.ModelProto) -> dict[str, Any]:
    found = {a.name: helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
    return {
        k: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v
        for k, v in found.items()
    }


def _goes_true(x: Any, test: str, value: Any, missing: bool) -> bool:
    return (missing and math.isnan(x)) or bool(_TESTS[test](x, value))


def raw_scores(model: onnx.ModelProto, x: Array) -> Array:
    """The sum, average, least or greatest of the leaves' weights; 0 for a target without any."""
    a = attributes(model)
    leaves, targets, trees = (_version_5 if "tree_roots" in a else _version_3)(a)
    rows = []
    for row in np.asarray(x, x.dtype if x.dtype.kind == "f" else np.float32):
        votes: list[list[float]] = [[] for _ in range(targets)]
        for pairs in leaves(row):
            for target, weight in pairs:
                votes[target].append(float(weight))
        rows.append([_joined(v, a.get("aggregate_function", b"SUM"), trees) for v in votes])
    return np.array(rows, np.float64).reshape(len(x), targets)


def _joined(votes: list[float], how: Any, trees: int) -> float:
    name = how.decode() if isinstance(how, bytes) else ("AVERAGE", "SUM", "MIN", "MAX")[how]
    if name in ("SUM", "AVERAGE"):
        return sum(votes) / (trees if name == "AVERAGE" else 1)
    return (min if name == "MIN" else max)(votes) if votes else 0.0


def _version_3(a: Mapping[str, Any]) -> Any:
    kind = "class" if "class_ids" in a else "target"
    keys = list(zip(a["nodes_treeids"], a["nodes_nodeids"]))
    at = {key: i for i, key in enumerate(keys)}
    pairs: dict[Any, list[Any]] = {}
    names = [f"{kind}_{k}" for k in ("treeids", "nodeids", "ids", "weights")]
    for tree, node, target, weight in zip(*(a[n] for n in names)):
        pairs.setdefault((tree, node), []).append((target, np.float32(weight)))
    trees = list(dict.fromkeys(a["nodes_treeids"]))
    missing = a.get("nodes_missing_value_tracks_true", [0] * len(keys))

    def leaves(row: Array) -> Any:
        for tree in trees:
            i = next(k for k, key in enumerate(keys) if key[0] == tree)
            while (mode := a["nodes_modes"][i].decode()) != "LEAF":
                value = np.float32(a["nodes_values"][i])
                true = _goes_true(row[a["nodes_featureids"][i]], mode, value, bool(missing[i]))
                child = a["nodes_truenodeids" if true else "nodes_falsenodeids"][i]
                i = at[tree, child]
            yield pairs[keys[i]]

    labels = a.get("classlabels_int64s") or a.get("classlabels_strings")
    return leaves, a["n_targets"] if kind == "target" else len(labels), len(trees)


def _version_5(a: Mapping[str, Any]) -> Any:
    sets = iter(_sets(a.get("membership_values", np.zeros(0))))
    modes = [_NAMES[m] for m in a["nodes_modes"]]
    values = [
        next(sets) if mode == "BRANCH_MEMBER" else split
        for mode, split in zip(modes, a["nodes_splits"])
    ]

    def leaves(row: Array) -> Any:
        for root in a["tree_roots"]:
            i, done = root, 0
            while not done:
                missing = bool(a["nodes_missing_value_tracks_true"][i])
                true = _goes_true(row[a["nodes_featureids"][i]], modes[i], values[i], missing)
                word = "true" if true else "false"
                i, done = a[f"nodes_{word}nodeids"][i], a[f"nodes_{word}leafs"][i]
            yield [(a["leaf_targetids"][i], a["leaf_weights"][i])]

    return leaves, a["n_targets"], len(a["tree_roots"])


def _sets(values: Array) -> Any:
    found: list[float] = []
    for value in values:
        if np.isnan(value):
            yield found
            found = []
        else:
            found.append(value)
