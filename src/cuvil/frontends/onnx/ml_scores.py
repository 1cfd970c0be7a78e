"""What models of ai.onnx.ml share: rows of features, transforms of scores, labels of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.emitter import Emitter
from cuvil.frontends.onnx.node import Item, Node, Refused
from cuvil.ir.core import Value
from cuvil.ir.types import F32, F64, I64

Array = np.ndarray[Any, Any]
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_TINY = 1e-7  # scores below count as zero for SOFTMAX_ZERO
_WINITZKI = 0.147  # of the approximation of erfinv that PROBIT is defined by


def rows(n: Node, index: int = 0) -> Value:
    """An input as [N, features] of f32, or of f64 if it is that; a vector is one row."""
    x = n[index]
    if x.type.rank == 1:
        x = n.e.unsqueeze(x, 0)
    if x.type.rank != 2:
        raise InvalidModelError(f"{n.op} takes [N, features], not {x.type}", where=str(n.e.loc))
    return x if x.type.dtype == F64 else n.e.cast(x, F32)


def features(n: Node, x: Value) -> int:
    """The number of columns of rows."""
    return n.size(x.type.shape, 1, "the number of features")


def transform_name(n: Node) -> str:
    """The attribute post_transform, checked."""
    name = n.text("post_transform", "NONE")
    if name not in TRANSFORMS:
        raise InvalidModelError(f"{n.op}: there is no post_transform {name!r}")
    return name


def transformed(e: Emitter, scores: Value, name: str) -> Value:
    """Scores [N, C] after a post_transform."""
    if name == "LOGISTIC":
        return e.op("sigmoid", scores)
    if name == "SOFTMAX":
        return e.op("softmax", scores, axis=1)
    if name == "SOFTMAX_ZERO":
        return _softmax_zero(e, scores)
    return _probit(e, scores) if name == "PROBIT" else scores


def _softmax_zero(e: Emitter, x: Value) -> Value:
    """A softmax in which zeros stay zero; rows of zeros alone are 0.5."""
    top = e.op("reduce_max", x, axes=(1,), keepdims=True)
    counted = e.with_scalar("gt", e.op("abs", x), _TINY)
    faint = e.map("mul", x, e.op("exp", e.op("neg", top)))
    raised = e.map("select", counted, e.op("exp", e.map("sub", x, top)), faint)
    total = e.op("reduce_sum", raised, axes=(1,), keepdims=True)
    half = e.scalar(0.5, x.type.dtype)
    return e.map("select", e.with_scalar("eq", total, 0.0), half, e.map("div", raised, total))


def _probit(e: Emitter, x: Value) -> Value:
    """sqrt(2) * erfinv(2 x - 1), by Winitzki's approximation, as runtimes have it."""
    z = e.with_scalar("sub", e.with_scalar("mul", x, 2.0), 1.0)
    one = e.scalar(1.0, x.type.dtype)
    log = e.op("log", e.map("mul", e.map("sub", one, z), e.map("add", one, z)))
    v = e.with_scalar("add", e.with_scalar("mul", log, 0.5), 2 / (math.pi * _WINITZKI))
    inner = e.map("sub", e.map("mul", v, v), e.with_scalar("mul", log, 1 / _WINITZKI))
    size = e.op("sqrt", e.map("sub", e.op("sqrt", inner), v))
    scaled = e.with_scalar("mul", size, math.sqrt(2.0))
    return e.map("select", e.with_scalar("lt", z, 0.0), e.op("neg", scaled), scaled)


def two_columns(e: Emitter, score: Value, complement: bool) -> Value:
    """The scores of two classes from the second one's [N, 1]: [1 - s, s] or [-s, s]."""
    first = e.op("neg", score)
    if complement:
        first = e.map("sub", e.scalar(1.0, score.type.dtype), score)
    return e.op("concat", first, score, axis=1)


def top_class(e: Emitter, scores: Value) -> Value:
    """The position of the greatest score of each row, the first of equals."""
    return e.op("argmax", scores, axis=1, keepdims=False)


@dataclass(frozen=True)
class Labels:
    """The classes' names, of which there are integers or strings."""

    values: list[Any]

    @property
    def texts(self) -> bool:
        return bool(self.values) and isinstance(self.values[0], str)

    def of(self, n: Node, position: Value) -> Item:
        """The label at each position."""
        if self.texts:
            return n.texts(self.values, position)
        if self.values == list(range(len(self.values))):
            return position
        table = n.e.weight(np.array(self.values, dtype=np.int64))
        return n.e.op("gather", table, n.e.cast(position, I64), axis=0)


def labels(n: Node, integers: str) -> Labels:
    """The labels of a classifier; ``integers`` names the attribute of those that are numbers."""
    whole, texts = n.integers(integers, []), n.attrs.get("classlabels_strings", [])
    if whole and texts:
        raise InvalidModelError(f"{n.op} has two lists of class labels")
    return Labels(list(whole or texts))


def scores_output(e: Emitter, scores: Value) -> Value:
    """Scores as the f32 that classifiers and regressors give, whatever they take."""
    return e.cast(scores, F32)


def refuse(reason: str, hint: str = "check the converter that wrote the model") -> Refused:
    """A model that its specification leaves open."""
    return Refused(reason, hint)
