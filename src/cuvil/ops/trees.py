"""Ensembles of decision trees: a table of nodes that every row of the input walks through.

The trees are data: ``nodes`` and ``roots`` as ops/tree_tables.py lays them out. Where the weights
of the leaves are is ``leaves``: "one" (each leaf has one weight, in its node; its target is the
tree's), "dense" (each leaf names a row of weights, one for each target) or "sparse" (each leaf
names a run of weights and their targets). For "min" and "max" a weight that is NaN means none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import F32, F64, I32, U32, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext
from cuvil.ops.numeric import need_operands
from cuvil.ops.tree_tables import MOST_FEATURES, unpack_trees
from cuvil.sym.expr import evaluate, mul

AGGREGATES = ("sum", "min", "max")
LEAVES = {"one": 4, "dense": 4, "sparse": 6}
_LIVE = 1 << 20  # walks at once in the reference


def _infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    name = "tree_ensemble"
    x, nodes, roots = types[:3]
    if x.dtype not in (F32, F64) or x.rank != 2:
        raise InvalidModelError(f"{name} takes a matrix of f32 or f64, not {x}")
    features = x.shape[1]
    if not isinstance(features, int) or features >= MOST_FEATURES:
        raise InvalidModelError(f"{name} needs a known number of features, not {features}")
    if attrs["aggregate"] not in AGGREGATES or attrs["leaves"] not in LEAVES:
        raise InvalidModelError(f"{name}: {attrs['aggregate']!r}, {attrs['leaves']!r}")
    need_operands(types, LEAVES[attrs["leaves"]], name)
    words = x.dtype.size // 4 + (1 if attrs["bits"] else 2)
    if nodes.dtype != U32 or nodes.rank != 2 or nodes.shape[1] != words:
        raise InvalidModelError(f"{name}: nodes {nodes} do not fit inputs of {x.dtype}")
    if attrs["bits"] and (x.dtype != F32 or features >> attrs["bits"]):
        raise InvalidModelError(f"{name}: {attrs['bits']} bits do not hold feature {features}")
    if roots.dtype != I32 or roots.rank != 1:
        raise InvalidModelError(f"{name}: roots are {roots}")
    _check_leaves(types[3:], x, roots, attrs)
    return [x.with_shape((x.shape[0], attrs["targets"]))]


def _check_leaves(
    types: Sequence[TensorType], x: TensorType, roots: TensorType, attrs: Attrs
) -> None:
    targets = attrs["targets"]
    shapes = [(t.dtype, t.shape) for t in types]
    count = types[-1].shape[0] if types[-1].rank else 0
    wanted = {
        "one": [(I32, roots.shape)],
        "dense": [(x.dtype, (count, targets))],
        "sparse": [(I32, types[0].shape), (I32, (count,)), (x.dtype, (count,))],
    }[attrs["leaves"]]
    if targets < 1 or shapes != wanted or types[0].rank != len(wanted[0][1]):
        raise InvalidModelError(f"tree_ensemble: leaves {list(map(str, types))} do not fit")


def _reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    x, nodes, roots = (np.asarray(a) for a in arrays[:3])
    table = unpack_trees(nodes, attrs["bits"], x.dtype)
    padded = np.column_stack([x, np.full(len(x), np.nan, x.dtype)])
    targets = attrs["targets"]
    start = 0.0 if attrs["aggregate"] == "sum" else np.nan
    out = np.full((len(x), targets), start, np.float64)
    chunk = max(1, _LIVE // max(len(x), 1))
    for first in range(0, len(roots), chunk):
        at = _walk(padded, table, roots[first : first + chunk])
        for tree in range(at.shape[1]):
            _collect(out, at[:, tree], table, first + tree, arrays[3:], attrs)
    if attrs["aggregate"] != "sum":
        out = np.where(np.isnan(out), 0.0, out)
    with np.errstate(over="ignore"):
        return [out.astype(x.dtype)]


def _walk(x: Array, table: Mapping[str, Array], roots: Array) -> Array:
    """The leaf each row ends at in each tree."""
    at = np.broadcast_to(roots.astype(np.int64), (len(x), len(roots))).copy()
    rows = np.arange(len(x))[:, None]
    while at.size and table["offset"][at].any():
        value = x[rows, table["feature"][at]]
        yes = value <= table["value"][at]
        yes |= np.isnan(value) & table["missing"][at]
        at += table["offset"][at] + yes
    return at


def _collect(
    out: Array,
    at: Array,
    table: Mapping[str, Array],
    tree: int,
    leaves: Sequence[Array],
    attrs: Attrs,
) -> None:
    """Add (or take the least or greatest of) what a tree's leaves hold."""
    rows = np.arange(len(out))
    if attrs["leaves"] == "one":
        _merge(out, rows, int(leaves[0][tree]), table["value"][at], attrs["aggregate"])
    elif attrs["leaves"] == "dense":
        for target in range(attrs["targets"]):
            weights = leaves[0][table["payload"][at], target]
            _merge(out, rows, target, weights, attrs["aggregate"])
    else:
        starts, ids, weights = leaves
        leaf = table["payload"][at].astype(np.int64)
        for step in range(int(np.max(starts[leaf + 1] - starts[leaf], initial=0))):
            here = np.flatnonzero(starts[leaf] + step < starts[leaf + 1])
            pair = starts[leaf[here]] + step
            _merge(out, here, ids[pair], weights[pair], attrs["aggregate"])


def _merge(out: Array, rows: Array, target: Array | int, weight: Array, aggregate: str) -> None:
    old, new = out[rows, target], weight.astype(np.float64)
    if aggregate == "sum":
        with np.errstate(all="ignore"):
            out[rows, target] = old + new
    else:
        out[rows, target] = (np.fmin if aggregate == "min" else np.fmax)(old, new)


def _cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    """A few operations a level."""
    nodes, trees = (evaluate(t.shape[0], {}) for t in operands[1:3])
    depth = max(1, int(np.ceil(np.log2(max(nodes / max(trees, 1), 2)))))
    return Cost(mul(operands[0].shape[0], 8 * trees * depth))


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.tree_ensemble", "kernel", _infer, _reference, (4, 6),
        {"targets": "int", "aggregate": "str", "leaves": "str", "bits": "int", "missing": "bool?"},
        "accumulated", _cost,
        doc="x [N, F], nodes, roots, leaves: the sum, least or greatest weight over the trees'"
        " leaves for each target, 0 where none has one.",
    ),
]  # fmt: skip
