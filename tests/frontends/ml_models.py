"""Small models of ai.onnx.ml, written by hand, and random ensembles of trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from cuvil.api.manifest import signature_of
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from cuvil.runtime.host import HostPlan

ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
Array = np.ndarray[Any, Any]
Rng = np.random.Generator
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def tensor(name: str, code: int, shape: Sequence[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, code, list(shape))


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    version: int = 3,
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "ml", list(inputs), list(outputs))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def one_node(
    op: str,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, int],
    version: int = 3,
    rank: int = 2,
    **attrs: Any,
) -> onnx.ModelProto:
    """A model of one node over inputs of these dtypes and ranks, the first dimension free."""
    node = helper.make_node(op, list(inputs), list(outputs), domain=ML, **attrs)
    ins = []
    for name, array in inputs.items():
        code = TensorProto.STRING if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(
            array.dtype
        )
        shape = [f"N_{name}", *array.shape[1:]] if array.ndim > 1 else list(array.shape)
        ins.append(tensor(name, code, shape))
    outs = [tensor(n, code, [None] * rank) for n, code in outputs.items()]
    for value in outs:
        value.type.tensor_type.ClearField("shape")
    return model_of([node], ins, outs, version)


class Ensemble:
    """Lists of nodes and weights of random trees, as attributes."""

    def __init__(
        self, rng: Rng, features: int, trees: int, splits: int, modes: Sequence[str] = MODES[:1],
        missing: bool = False,
    ) -> None:  # fmt: skip
        self.rng = rng
        self.nodes: dict[str, list[Any]] = {
            f"nodes_{k}": []
            for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                      "falsenodeids", "missing_value_tracks_true")
        }  # fmt: skip
        self.leaves: list[tuple[int, int]] = []
        for tree in range(trees):
            self._grow(tree, features, splits, modes)
        if not missing:
            del self.nodes["nodes_missing_value_tracks_true"]

    def _grow(self, tree: int, features: int, splits: int, modes: Sequence[str]) -> None:
        rng, rows = self.rng, [[0, 0.0, "LEAF", 0, 0, 0]]
        leaves = [0]
        for _ in range(splits):
            at = leaves.pop(int(rng.integers(len(leaves))))
            kids = [len(rows), len(rows) + 1]
            rows += [[0, 0.0, "LEAF", 0, 0, 0] for _ in kids]
            rows[at] = [
                int(rng.integers(features)), float(rng.integers(-6, 7)) / 4,
                str(rng.choice(list(modes))), *kids, int(rng.integers(2)),
            ]  # fmt: skip
            leaves += kids
        for i, row in enumerate(rows):
            for name, value in zip(self.nodes, [tree, i, *row]):
                self.nodes[name].append(value)
        self.leaves += [(tree, leaf) for leaf in sorted(leaves)]

    def weights(
        self, kind: str, targets: int, *, each: str = "all", low: float = -1.0
    ) -> dict[str, Any]:
        """Weights of leaves: for ``all`` targets, for ``one`` a tree, or for ``some``."""
        rows = []
        for tree, leaf in self.leaves:
            ids = {"all": range(targets), "one": [tree % targets], "first": [0]}.get(each)
            if ids is None:
                ids = self.rng.permutation(targets)[: self.rng.integers(1, targets + 1)]
            rows += [(tree, leaf, int(t), float(self.rng.uniform(low, 1))) for t in ids]
        names = [f"{kind}_{k}" for k in ("treeids", "nodeids", "ids", "weights")]
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def regressor(ensemble: Ensemble, x: Array, targets: int, version: int = 3, **more: Any) -> Any:
    weights = more.pop("weights", None) or ensemble.weights("target", targets)
    attrs = {**ensemble.nodes, **weights, "n_targets": targets, **more}
    return one_node("TreeEnsembleRegressor", {"x": x}, {"y": FLOAT}, version, **attrs)


def classifier(ensemble: Ensemble, x: Array, labels: Sequence[Any], **more: Any) -> Any:
    weights = more.pop("weights", None) or ensemble.weights("class", len(labels))
    key = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    attrs = {**ensemble.nodes, **weights, key: list(labels), **more}
    code = TensorProto.STRING if isinstance(labels[0], str) else INT64
    return one_node("TreeEnsembleClassifier", {"x": x}, {"label": code, "z": FLOAT}, **attrs)


def grid(rng: Rng, rows: int, features: int, dtype: Any = np.float32, nan: float = 0.1) -> Array:
    """Inputs that often equal a threshold; a part of them is NaN."""
    x = (rng.integers(-8, 9, (rows, features)) / 4).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < nan] = np.nan
    return x


def version_5(
    rng: Rng, x: Array, targets: int, trees: int, splits: int, modes: Sequence[int], **more: Any
) -> onnx.ModelProto:
    """A random TreeEnsemble."""
    dtype, features = x.dtype, x.shape[1]
    nodes: list[list[Any]] = []
    leaves: list[tuple[int, float]] = []
    members: list[float] = []
    roots = []

    def leaf() -> tuple[int, int]:
        leaves.append((int(rng.integers(targets)), float(rng.uniform(-1, 1))))
        return len(leaves) - 1, 1

    for _ in range(trees):
        roots.append(len(nodes))
        open_ends: list[tuple[int, int]] = []
        for split in range(splits):
            at = len(nodes)
            mode = int(rng.choice(list(modes)))
            nodes.append([int(rng.integers(features)), float(rng.integers(-6, 7)) / 4, mode,
                          0, 0, 0, 0, int(rng.integers(2))])  # fmt: skip
            if mode == 6:
                some = rng.choice(np.arange(-6, 7) / 4, int(rng.integers(1, 5)), replace=False)
                members.extend([*map(float, some), np.nan])
            if split:
                parent, side = open_ends.pop(int(rng.integers(len(open_ends))))
                nodes[parent][3 + 2 * side : 5 + 2 * side] = [at, 0]
            open_ends += [(at, 0), (at, 1)]
        for parent, side in open_ends:
            nodes[parent][3 + 2 * side : 5 + 2 * side] = leaf()
    feature, split_at, mode_at, true, true_leaf, false, false_leaf, missing = zip(*nodes)
    attrs: dict[str, Any] = {
        "nodes_featureids": feature, "nodes_truenodeids": true, "nodes_trueleafs": true_leaf,
        "nodes_falsenodeids": false, "nodes_falseleafs": false_leaf, "tree_roots": roots,
        "nodes_missing_value_tracks_true": missing, "n_targets": targets,
        "leaf_targetids": [t for t, _ in leaves],
        "nodes_splits": numpy_helper.from_array(np.array(split_at, dtype)),
        "nodes_modes": numpy_helper.from_array(np.array(mode_at, np.uint8)),
        "leaf_weights": numpy_helper.from_array(np.array([w for _, w in leaves], dtype)), **more,
    }  # fmt: skip
    if members:
        attrs["membership_values"] = numpy_helper.from_array(np.array(members, dtype))
    code = helper.np_dtype_to_tensor_dtype(dtype)
    return one_node("TreeEnsemble", {"x": x}, {"y": code}, 5, **attrs)


def run_captured(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs by name of the captured module, by the reference interpreter."""
    module = capture_onnx(model)
    tree = module.call.get("host")
    names = module.main.output_names
    if tree is None:
        return dict(zip(names, run_module(module, inputs), strict=True))
    plan = HostPlan.read(tree, signature_of(module.main))
    codes = plan.codes()
    found = dict(zip(names, run_module(module, plan.numbers(inputs, codes)), strict=True))
    found.update(plan.decoded(found, codes))
    return {spec.name: found[spec.name] for spec in plan.outputs}


def run_ort(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs by name of onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def assert_same(found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float) -> None:
    """Floats close, everything else equal."""
    assert list(found) == list(wanted)
    for name, want in wanted.items():
        got = found[name]
        if isinstance(want, list):
            assert [list(m) for m in got] == [list(m) for m in want], name
            got, want = (np.array([list(m.values()) for m in y]) for y in (got, want))
        assert got.shape == want.shape, name
        if np.asarray(want).dtype.kind != "f":
            np.testing.assert_array_equal(got, want, err_msg=name)
        else:
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=name)
