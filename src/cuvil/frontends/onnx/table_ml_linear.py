"""Linear models and support vector machines of ai.onnx.ml."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.ml_scores import (
    Labels,
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
from cuvil.frontends.onnx.node import Handler, Item, Node, Result
from cuvil.ir.core import Value
from cuvil.ir.types import I64

Array = np.ndarray[Any, Any]
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_MOST_PAIRS = 1 << 26


def _floats(n: Node, name: str) -> Array:
    return np.array(n.attrs.get(name) or [], dtype=np.float32)


def _matrix(n: Node, name: str, width: int, height: int | None = None) -> Array:
    """A list attribute as [height, width]."""
    flat = _floats(n, name)
    if not len(flat) or not width or len(flat) % width or height not in (None, len(flat) // width):
        wanted = f"{height if height is not None else 'rows'} x {width}"
        raise InvalidModelError(f"{n.op}: {name} has {len(flat)} numbers, not {wanted}")
    return flat.reshape(-1, width)


def _constant(n: Node, x: Value, array: Array) -> Value:
    return n.e.weight(np.ascontiguousarray(array, x.type.dtype.numpy))


def _product(n: Node, x: Value, matrix: Array, bias: Array) -> Value:
    """x times the rows of a matrix, plus a bias if there is one."""
    made = n.e.op("matmul", x, _constant(n, x, matrix.T))
    return n.e.map("add", made, _constant(n, x, bias)) if len(bias) else made


def _regressor(n: Node) -> Result:
    x, targets, transform = rows(n), n.integer("targets", 1), transform_name(n)
    matrix = _matrix(n, "coefficients", features(n, x), targets)
    bias = _floats(n, "intercepts")
    if len(bias) not in (0, targets):
        raise InvalidModelError(f"{n.op}: {len(bias)} intercepts for {targets} targets")
    return scores_output(n.e, transformed(n.e, _product(n, x, matrix, bias), transform))


def _classifier(n: Node) -> Result:
    x, transform = rows(n), transform_name(n)
    classes = labels(n, "classlabels_ints")
    matrix, bias = _matrix(n, "coefficients", features(n, x)), _floats(n, "intercepts")
    count = len(matrix)
    if len(bias) not in (0, count):
        raise InvalidModelError(f"{n.op}: {len(bias)} intercepts for {count} rows of coefficients")
    scores = _product(n, x, matrix, bias)
    if count == 1 and len(classes.values) == 2:
        scores = two_columns(n.e, scores, complement=False)
    elif count == 1 and len(classes.values) < 2:
        return [_present(n, classes, scores), _out(n, scores, transform)]
    elif len(classes.values) not in (0, count):
        raise InvalidModelError(f"{n.op}: {len(classes.values)} labels for {count} classes")
    named = classes if classes.values else Labels(list(range(count)))
    return [named.of(n, top_class(n.e, scores)), _out(n, scores, transform)]


def _out(n: Node, scores: Value, transform: str) -> Value:
    return scores_output(n.e, transformed(n.e, scores, transform))


def _present(n: Node, classes: Labels, scores: Value) -> Value:
    """Of one class: its label where the score is positive, else 0."""
    if classes.texts:
        raise refuse("a single class with a label of text has no label for its absence")
    e = n.e
    found = e.with_scalar("gt", e.squeeze(scores, [1]), 0.0)
    label = classes.values[0] if classes.values else 1
    return e.map("select", found, e.scalar(label, I64), e.scalar(0, I64))


def _similarity(n: Node, x: Value, vectors: Array, kind: str) -> Value:
    """The kernel of each row with each vector, [N, V]."""
    e = n.e
    given = _floats(n, "kernel_params")
    if len(given) not in (0, 3):
        raise InvalidModelError(f"{n.op}: kernel_params has {len(given)} entries, not 3")
    gamma, coef0, degree = (float(v) for v in given) if len(given) else (0.0, 0.0, 0.0)
    if kind == "RBF":
        apart = e.map("sub", e.unsqueeze(x, 1), _constant(n, x, vectors))
        distance = e.op("reduce_sum", e.map("mul", apart, apart), axes=(2,), keepdims=False)
        return e.op("exp", e.with_scalar("mul", distance, -gamma))
    product = _product(n, x, vectors, np.zeros(0, np.float32))
    if kind == "LINEAR":
        return product
    turned = e.with_scalar("add", e.with_scalar("mul", product, gamma), coef0)
    return e.op("tanh", turned) if kind == "SIGMOID" else e.with_scalar("pow", turned, degree)


def _kernel(n: Node) -> str:
    kind = n.text("kernel_type", "LINEAR")
    if kind not in _KERNELS:
        raise InvalidModelError(f"{n.op}: there is no kernel_type {kind!r}")
    return kind


def _rho(n: Node, count: int) -> Array:
    rho = _floats(n, "rho")
    if len(rho) < count:
        raise InvalidModelError(f"{n.op}: rho has {len(rho)} entries, not {count}")
    return rho[:count]


def _svm_regressor(n: Node) -> Result:
    e, x, transform = n.e, rows(n), transform_name(n)
    width, supports = features(n, x), n.integer("n_supports", 0)
    kind = _kernel(n)
    if supports > 0:
        vectors = _matrix(n, "support_vectors", width, supports)
        x = _similarity(n, x, vectors, kind)
        width = supports
    score = _product(n, x, _matrix(n, "coefficients", width, 1), _rho(n, 1))
    if n.integer("one_class", 0):
        if transform != "NONE":
            raise refuse("a post_transform of one_class, whose results are 1 and -1")
        dtype = score.type.dtype
        inside = e.with_scalar("gt", score, 0.0)
        score = e.map("select", inside, e.scalar(1, dtype), e.scalar(-1, dtype))
    return scores_output(e, transformed(e, score, transform))


def _svm_classifier(n: Node) -> Result:
    x, transform = rows(n), transform_name(n)
    classes = labels(n, "classlabels_ints")
    count = len(classes.values)
    kind = _kernel(n)
    if not count:
        raise InvalidModelError(f"{n.op} has no class labels")
    each = np.array(n.integers("vectors_per_class", []), dtype=np.int64)
    if each.sum() == 0:
        matrix = _matrix(n, "coefficients", features(n, x), count)
        scores = _product(n, x, matrix, np.repeat(_rho(n, 1), count))
        return [classes.of(n, top_class(n.e, scores)), _out(n, scores, transform)]
    if len(each) != count or (each < 0).any() or count < 2:
        raise InvalidModelError(f"{n.op}: vectors_per_class does not fit {count} labels")
    vectors = _matrix(n, "support_vectors", features(n, x), int(each.sum()))
    scores = _pair_scores(n, _similarity(n, x, vectors, kind), each)
    label: Item = classes.of(n, _elected(n, scores, count))
    if n.attrs.get("prob_a"):
        return [label, _out(n, _probabilities(n, scores, count), transform)]
    if count == 2:
        scores = two_columns(n.e, scores, complement=transform == "PROBIT")
    return [label, _out(n, scores, transform)]


def _pair_scores(n: Node, similar: Value, each: Array) -> Value:
    """The decision of each pair of classes, [N, pairs]: a class's coefficients against another
    lie in the other's row, which leaves the class itself out."""
    total, count = int(each.sum()), len(each)
    pairs = list(combinations(range(count), 2))
    if total * len(pairs) > _MOST_PAIRS:
        raise refuse(f"{len(pairs)} pairs of classes with {total} support vectors are too many", "")
    given = _matrix(n, "coefficients", total, count - 1)
    start = np.concatenate([[0], np.cumsum(each)])
    matrix = np.zeros((len(pairs), total), np.float32)
    for row, (i, j) in zip(matrix, pairs):
        row[start[i] : start[i + 1]] = given[j - 1, start[i] : start[i + 1]]
        row[start[j] : start[j + 1]] = given[i, start[j] : start[j + 1]]
    return _product(n, similar, matrix, _rho(n, len(pairs)))


def _elected(n: Node, scores: Value, count: int) -> Value:
    """The class with most votes of its pairs, the first of equals."""
    e, pairs = n.e, list(combinations(range(count), 2))
    won = e.cast(e.with_scalar("gt", scores, 0.0), scores.type.dtype)
    table, start = np.zeros((len(pairs), count), np.float32), np.zeros(count, np.float32)
    for row, (i, j) in zip(table, pairs):
        row[i], row[j] = 1, -1
        start[j] += 1
    return top_class(e, _product(n, won, table.T, start))


def _probabilities(n: Node, scores: Value, count: int) -> Value:
    """Of each class, from the pairs' (libsvm's method for several classes)."""
    e, pairs = n.e, count * (count - 1) // 2
    a, b = _floats(n, "prob_a"), _floats(n, "prob_b")
    if len(a) != len(b) or len(a) < pairs:
        raise InvalidModelError(f"{n.op}: prob_a and prob_b have {len(a)} and {len(b)} entries")
    turned = e.map("mul", scores, _constant(n, scores, -a[:pairs]))
    turned = e.map("sub", turned, _constant(n, scores, b[:pairs]))
    inside = e.with_scalar("max", e.op("sigmoid", turned), 1e-7)
    return e.op("couple_pairs", e.with_scalar("min", inside, 1 - 1e-7), classes=count)


TABLE: dict[str, Handler] = {
    "LinearClassifier": _classifier,
    "LinearRegressor": _regressor,
    "SVMClassifier": _svm_classifier,
    "SVMRegressor": _svm_regressor,
}
