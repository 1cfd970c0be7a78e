"""Tree ensembles of ai.onnx.ml against the specification node by node, and onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import cuvil
from cuvil.errors import InvalidModelError, UnsupportedOpError
from cuvil.frontends.onnx import capture_onnx
from tests.frontends.ml_models import (
    MODES,
    Ensemble,
    assert_same,
    classifier,
    grid,
    regressor,
    run_captured,
    run_ort,
    version_5,
)
from tests.frontends.ml_oracle import raw_scores

_DTYPES = (np.float32, np.float64, np.int64, np.int32)


@pytest.mark.parametrize("seed", range(40))
def test_regressors_are_right_node_by_node(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, rows, targets = int(rng.integers(1, 6)), int(rng.integers(1, 12)), seed % 3 + 1
    modes = [MODES, MODES[:1], MODES[4:], MODES[2:4]][seed % 4]
    trees = Ensemble(rng, features, int(rng.integers(1, 7)), seed % 8, modes, seed % 2 == 0)
    x = grid(rng, rows, features, _DTYPES[seed // 4 % 4])
    weights = trees.weights("target", targets, each=("all", "one", "some")[seed % 3])
    how = ("SUM", "AVERAGE", "MIN", "MAX")[seed // 2 % 4]
    model = regressor(trees, x, targets, weights=weights, aggregate_function=how)
    assert_same(run_captured(model, {"x": x}), {"y": raw_scores(model, x)}, 1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_version_5_is_right_node_by_node(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = grid(rng, 9, 3, (np.float32, np.float64, np.float16)[seed % 3])
    modes = [range(7), [6], range(4), [4, 5]][seed % 4]
    model = version_5(rng, x, seed % 2 + 1, 3, seed % 6 + 1, modes, aggregate_function=seed % 4)
    tolerance = 2e-3 if x.dtype == np.float16 else 1e-5
    assert_same(run_captured(model, {"x": x}), {"y": raw_scores(model, x)}, tolerance)


@pytest.mark.parametrize("seed", range(24))
def test_regressors_agree_with_onnxruntime(seed: int) -> None:
    rng = np.random.default_rng(seed)
    targets = seed % 3 + 1
    trees = Ensemble(rng, 4, int(rng.integers(1, 7)), seed % 8, MODES, seed % 2 == 0)
    x = grid(rng, 9, 4, (np.float32, np.float64)[seed % 2])
    transform = ["NONE", "PROBIT"] if targets == 1 else ["NONE", "LOGISTIC", "SOFTMAX", "PROBIT"]
    model = regressor(
        trees, x, targets, base_values=[0.25, -0.5, 0.75][:targets],
        aggregate_function=("SUM", "AVERAGE", "MIN", "MAX")[seed // 2 % 4],
        post_transform=transform[seed % len(transform)],
    )  # fmt: skip
    inputs = {"x": x}
    if x.dtype == np.float64:
        model.graph.node[0].attribute.extend(_wide(model))
    assert_same(run_captured(model, inputs), run_ort(model, inputs), 1e-4)


def _wide(model: onnx.ModelProto) -> list[onnx.AttributeProto]:
    """The lists of floats as tensors of f64; they leave the node."""
    node, made = model.graph.node[0], []
    for name in ("nodes_values", "target_weights", "base_values"):
        old = next(a for a in node.attribute if a.name == name)
        array = np.array(old.floats, np.float64)
        made.append(helper.make_attribute(f"{name}_as_tensor", numpy_helper.from_array(array)))
        node.attribute.remove(old)
    return made


@pytest.mark.parametrize("seed", range(24))
def test_classifiers_agree_with_onnxruntime(seed: int) -> None:
    """Several classes that all trees or some vote for; and two, by the score of one."""
    rng = np.random.default_rng(seed)
    classes = 2 + seed % 3
    labels: list[Any] = [[5, 9, -1, 3], ["b", "a", "d", "c"]][seed // 3 % 2][:classes]
    trees = Ensemble(rng, 4, 7, seed % 8, MODES[:4], seed % 2 == 0)
    each = "first" if classes == 2 else ("all", "one")[seed % 2]
    low = -1.0 if classes == 2 or seed % 4 else 0.0
    transforms = ["NONE", "LOGISTIC"] if classes == 2 else ["NONE", "LOGISTIC", "SOFTMAX"]
    x = grid(rng, 9, 4, _DTYPES[seed % 4])
    base = [[0.125], [0.25, 0.5, -0.75], [0.25, 0.5, -0.75, 0.0]][classes - 2]
    more = {"base_values": base} if seed % 2 else {}
    model = classifier(
        trees, x, labels, weights=trees.weights("class", classes, each=each, low=low),
        post_transform=transforms[seed % len(transforms)], **more,
    )  # fmt: skip
    assert_same(run_captured(model, {"x": x}), run_ort(model, {"x": x}), 1e-4)


def test_two_classes_that_both_have_weights_are_the_greater_score() -> None:
    """onnxruntime looks at the second score alone here, and gives 1 or 0 for any labels."""
    rng = np.random.default_rng(0)
    x = grid(rng, 20, 3)
    model = classifier(Ensemble(rng, 3, 5, 4), x, [7, 11])
    found, raw = run_captured(model, {"x": x}), raw_scores(model, x)
    np.testing.assert_array_equal(found["label"], np.array([7, 11])[raw.argmax(1)])
    np.testing.assert_allclose(found["z"], raw, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transform", ["SOFTMAX", "LOGISTIC", "NONE"])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_a_binary_score_becomes_two_that_are_transformed(transform: str, low: float) -> None:
    rng = np.random.default_rng(3)
    x = grid(rng, 20, 3)
    trees = Ensemble(rng, 3, 4, 3)
    weights = trees.weights("class", 2, each="first", low=low)
    model = classifier(trees, x, [0, 1], weights=weights, post_transform=transform)
    found, s = run_captured(model, {"x": x}), raw_scores(model, x)[:, :1]
    columns = np.hstack([1 - s if transform == "NONE" and low == 0 else -s, s])
    raised = np.exp(columns)
    wanted = {
        "NONE": columns, "LOGISTIC": raised / (1 + raised),
        "SOFTMAX": raised / raised.sum(1, keepdims=True),
    }[transform]  # fmt: skip
    np.testing.assert_allclose(found["z"], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["label"], columns.argmax(1))


def test_softmax_zero_of_zeros() -> None:
    rng = np.random.default_rng(0)
    trees = Ensemble(rng, 2, 1, 0)
    weights = trees.weights("target", 3)
    weights["target_weights"] = [0.0, 0.0, 0.0]
    x = grid(rng, 2, 2)
    model = regressor(trees, x, 3, weights=weights, post_transform="SOFTMAX_ZERO")
    np.testing.assert_array_equal(run_captured(model, {"x": x})["y"], np.full((2, 3), 0.5))
    weights["target_weights"] = [0.0, 2.0, -1.0]
    model = regressor(trees, x, 3, weights=weights, post_transform="SOFTMAX_ZERO")
    assert_same(run_captured(model, {"x": x}), run_ort(model, {"x": x}), 1e-6)


def test_shared_nodes_are_one_node() -> None:
    """Converters write a set of categories as branches that share a child."""
    nodes = {
        "nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 0, 0, 0], "nodes_values": [1.0, 3.0, 0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_EQ", "BRANCH_EQ", "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [2, 2, 0, 0, 0], "nodes_falsenodeids": [1, 3, 0, 0, 0],
        "target_treeids": [0, 0], "target_nodeids": [2, 3], "target_ids": [0, 0],
        "target_weights": [10.0, 20.0],
    }  # fmt: skip
    x = np.array([[1], [2], [3], [np.nan]], np.float32)
    trees = Ensemble(np.random.default_rng(0), 1, 1, 0)
    trees.nodes = {k: v for k, v in nodes.items() if k.startswith("nodes_")}
    weights = {k: v for k, v in nodes.items() if k.startswith("target_")}
    found = run_captured(regressor(trees, x, 1, weights=weights), {"x": x})
    np.testing.assert_array_equal(found["y"], [[10], [20], [10], [20]])


def _broken(change: Callable[[dict[str, list[Any]]], None]) -> onnx.ModelProto:
    rng = np.random.default_rng(5)
    trees = Ensemble(rng, 3, 2, 3)
    attrs = {**trees.nodes, **trees.weights("target", 1)}
    change(attrs)
    trees.nodes = {k: v for k, v in attrs.items() if k.startswith("nodes_")}
    weights = {k: v for k, v in attrs.items() if not k.startswith("nodes_")}
    return regressor(trees, np.zeros((1, 3), np.float32), 1, weights=weights)


def _set(name: str, index: int, value: Any) -> Callable[[dict[str, list[Any]]], None]:
    return lambda attrs: attrs[name].__setitem__(index, value)


def _cut(name: str) -> Callable[[dict[str, list[Any]]], None]:
    return lambda attrs: attrs.__setitem__(name, attrs[name][:-1])


def _drop_leaf(attrs: dict[str, list[Any]]) -> None:
    for name in ("treeids", "nodeids", "ids", "weights"):
        attrs[f"target_{name}"] = attrs[f"target_{name}"][1:]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_set("nodes_truenodeids", 0, 0), "cycle"),
        (_set("nodes_falsenodeids", 0, 99), "node 99 of tree 0, which is not there"),
        (_set("nodes_truenodeids", 0, -1), "node -1 of tree 0, which is not there"),
        (_set("nodes_featureids", 0, 3), "features"),
        (_set("nodes_featureids", 0, -1), "features -1"),
        (_set("nodes_nodeids", 1, 0), "defined twice"),
        (_set("nodes_modes", 0, "BRANCH_SOMETIMES"), "no node mode"),
        (_set("target_ids", 0, 1), "targets outside of 1"),
        (_set("target_nodeids", 0, 77), "node 77"),
        (_drop_leaf, "1 leaves have no weight"),
        (_cut("nodes_values"), "nodes_values has"),
        (_cut("nodes_featureids"), "nodes_featureids has"),
        (_cut("target_weights"), "target_weights has"),
    ],
)
def test_malformed_ensembles_are_refused(change: Any, reason: str) -> None:
    with pytest.raises(InvalidModelError, match=reason):
        capture_onnx(_broken(change))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("tree_roots", [9], "tree_roots"),
        ("tree_roots", [], "tree_roots"),
        ("nodes_truenodeids", [-1], "nodes_truenodeids"),
        ("nodes_falsenodeids", [7], "nodes_falsenodeids"),
        ("leaf_targetids", [0, 5], "targets"),
        ("membership_values", [1.0, np.nan, 2.0], "sets"),
    ],
)
def test_malformed_ensembles_of_version_5_are_refused(name: str, value: Any, reason: str) -> None:
    rng = np.random.default_rng(0)
    model = version_5(rng, np.zeros((1, 3), np.float32), 1, 1, 1, [0])
    node = model.graph.node[0]
    kept = [a for a in node.attribute if a.name != name]
    if name == "membership_values":
        value = numpy_helper.from_array(np.array(value, np.float32))
    del node.attribute[:]
    node.attribute.extend(kept)
    kind = onnx.AttributeProto.INTS if isinstance(value, list) else onnx.AttributeProto.TENSOR
    node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    with pytest.raises(InvalidModelError, match=reason):
        capture_onnx(model)


def test_a_symbolic_number_of_features_is_refused() -> None:
    rng = np.random.default_rng(0)
    model = regressor(Ensemble(rng, 3, 1, 1), np.zeros((1, 3), np.float32), 1)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "F"
    with pytest.raises(UnsupportedOpError, match="features is symbolic"):
        capture_onnx(model)


@pytest.mark.parametrize("rows", [1, 7, 8, 300])
def test_compiled_ensembles_take_any_number_of_rows(rows: int) -> None:
    rng = np.random.default_rng(1)
    x = grid(rng, rows, 6)
    trees = Ensemble(rng, 6, 100, 12, MODES, missing=True)
    model = classifier(trees, grid(rng, 2, 6), ["no", "yes", "maybe"])
    compiled = cuvil.compile(model)
    label, z = compiled(x)
    wanted = run_ort(model, {"x": x})
    np.testing.assert_allclose(z, wanted["z"], rtol=1e-4, atol=1e-4)
    near = np.sort(z, 1)[:, -1] - np.sort(z, 1)[:, -2] < 1e-3
    assert (label == wanted["label"])[~near].all()


def test_threads_do_not_change_results() -> None:
    rng = np.random.default_rng(2)
    trees = Ensemble(rng, 6, 1500, 5, MODES[:1])
    model = regressor(trees, grid(rng, 2, 6), 1)
    one, two = cuvil.compile(model, threads=1), cuvil.compile(model, threads=2)
    for rows in (1, 5, 64, 1000):
        x = grid(rng, rows, 6)
        np.testing.assert_array_equal(one(x), two(x))


def test_a_tree_as_deep_as_it_has_nodes() -> None:
    """A chain: each branch has a leaf for true."""
    n = 3000
    trees = Ensemble(np.random.default_rng(0), 1, 1, 0)
    trees.nodes = {
        "nodes_treeids": [0] * (2 * n + 1), "nodes_nodeids": list(range(2 * n + 1)),
        "nodes_featureids": [0] * (2 * n + 1),
        "nodes_values": [float(i) for i in range(n)] + [0.0] * (n + 1),
        "nodes_modes": ["BRANCH_LEQ"] * n + ["LEAF"] * (n + 1),
        "nodes_truenodeids": [n + i for i in range(n)] + [0] * (n + 1),
        "nodes_falsenodeids": [i + 1 for i in range(n - 1)] + [2 * n] + [0] * (n + 1),
    }
    weights = {
        "target_treeids": [0] * (n + 1), "target_nodeids": list(range(n, 2 * n + 1)),
        "target_ids": [0] * (n + 1), "target_weights": [float(i) for i in range(n + 1)],
    }  # fmt: skip
    x = np.array([[-1], [5.5], [n - 1.5], [n], [np.nan]], np.float32)
    found = cuvil.compile(regressor(trees, x, 1, weights=weights))(x)
    np.testing.assert_array_equal(found.ravel(), [0, 6, n - 1, n, n])


def test_many_features_and_many_classes() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 70_000)).astype(np.float32)
    model = regressor(Ensemble(rng, 70_000, 9, 20, MODES, True), x, 1)
    assert_same({"y": cuvil.compile(model, verify=False)(x)}, run_ort(model, {"x": x}), 1e-5)
    x = grid(rng, 20, 5, nan=0)
    trees = Ensemble(rng, 5, 300, 6)
    model = classifier(trees, x, list(range(200)), weights=trees.weights("class", 200, each="one"))
    found = dict(zip(("label", "z"), cuvil.compile(model)(x)))
    assert_same(found, run_ort(model, {"x": x}), 1e-5)
