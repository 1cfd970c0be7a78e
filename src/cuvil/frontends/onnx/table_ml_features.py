"""Operators of ai.onnx.ml that prepare features: scaling, imputing, selecting, joining."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.ml_scores import features
from cuvil.frontends.onnx.node import Handler, Node, Result
from cuvil.ir.core import Value
from cuvil.ir.types import F32, F64, I64
from cuvil.sym.expr import product

Array = np.ndarray[Any, Any]
_NORMS = ("MAX", "L1", "L2")


def _matrix(n: Node) -> Value:
    """The first input, whose last dimension is the features."""
    x = n[0]
    if x.type.rank not in (1, 2):
        raise InvalidModelError(f"{n.op} takes [features] or [N, features], not {x.type}")
    return x


def _wide(n: Node, x: Value) -> Value:
    return x if x.type.dtype == F64 else n.e.cast(x, F32)


def _each(n: Node, name: str, x: Value, kinds: tuple[type, ...]) -> Array:
    """An attribute of one number, or of one for each feature."""
    found = n.attrs.get(name) or []
    if not all(isinstance(v, kinds) for v in found):
        raise InvalidModelError(f"{n.op}: {name} has the wrong type")
    if len(found) != 1:
        n.e.context.require(x.type.shape[-1], "==", len(found), f"{n.op}: entries of {name}")
    return np.array(found, dtype=np.int64 if kinds == (int,) else np.float32)


def _scaler(n: Node) -> Result:
    x = _wide(n, _matrix(n))
    for name, op in (("offset", "sub"), ("scale", "mul")):
        if n.attrs.get(name):
            values = _each(n, name, x, (float,)).astype(x.type.dtype.numpy)
            x = n.e.map(op, x, n.e.weight(values))
    return n.e.cast(x, F32)


def _normalizer(n: Node) -> Result:
    """x over the greatest, the sum of magnitudes or the length of its row; as it is where that is
    0."""
    e, x, norm = n.e, _wide(n, _matrix(n)), n.text("norm", "MAX")
    if norm not in _NORMS:
        raise InvalidModelError(f"{n.op}: there is no norm {norm!r}")
    axes = (x.type.rank - 1,)
    if norm == "MAX":
        size = e.op("reduce_max", x, axes=axes, keepdims=True)
    elif norm == "L1":
        size = e.op("reduce_sum", e.op("abs", x), axes=axes, keepdims=True)
    else:
        size = e.op("sqrt", e.op("reduce_sum", e.map("mul", x, x), axes=axes, keepdims=True))
    size = e.map("select", e.with_scalar("eq", size, 0.0), e.scalar(1.0, x.type.dtype), size)
    return e.cast(e.map("div", x, size), F32)


def _imputer(n: Node) -> Result:
    e, x = n.e, _matrix(n)
    kind = "float" if x.type.dtype.is_float else "int64"
    if not n.attrs.get(f"imputed_value_{kind}s"):
        raise InvalidModelError(f"{n.op} has no imputed_value_{kind}s for {x.type}")
    values = _each(n, f"imputed_value_{kind}s", x, (float,) if kind == "float" else (int,))
    old = n.number("replaced_value_float", 0.0) if kind == "float" else float("nan")
    if kind == "float" and math.isnan(old):
        missing = e.op("isnan", x)
    else:
        exact = n.integer("replaced_value_int64", 0) if kind == "int64" else old
        missing = e.with_scalar("eq", x, exact)
    return e.map("select", missing, e.weight(values.astype(x.type.dtype.numpy)), x)


def _binarizer(n: Node) -> Result:
    x, threshold = n[0], n.number("threshold", 0.0)
    if not x.type.dtype.is_float:
        limits = np.iinfo(x.type.dtype.numpy)
        if not limits.min <= threshold < limits.max:  # also for NaN
            above = 1.0 if threshold < limits.min else 0.0
            return n.e.broadcast(n.e.scalar(above, x.type.dtype), x.type.shape)
        threshold = math.floor(threshold)
    return n.e.cast(n.e.with_scalar("gt", x, threshold), x.type.dtype)


def extract(n: Node, x: Value, index: Value) -> Value:
    """Columns of the last dimension; of a vector as one row."""
    if x.type.rank == 0:
        raise InvalidModelError(f"{n.op} takes no scalar")
    flat = n.e.reshape(index, (product(index.type.shape),))
    picked = n.e.op("gather", x, n.e.cast(flat, I64), axis=x.type.rank - 1)
    return n.e.unsqueeze(picked, 0) if x.type.rank == 1 else picked


def _extractor(n: Node) -> Result:
    return extract(n, n[0], n[1])


def _vectorizer(n: Node) -> Result:
    """Inputs side by side, each cut or filled with zeros to its size."""
    sizes = n.integers("inputdimensions", [])
    parts = [n[i] for i in range(len(n.inputs))]
    if len(sizes) not in (0, len(parts)) or any(s < 0 for s in sizes):
        raise InvalidModelError(f"{n.op}: inputdimensions is {sizes} for {len(parts)} inputs")
    columns = []
    for i, part in enumerate(parts):
        shape = part.type.shape
        rows = (1, *shape) if len(shape) == 1 else (shape[0], product(shape[1:]))
        x = n.e.cast(n.e.reshape(part, rows), F32)
        width = features(n, x)
        size = sizes[i] if sizes else width
        if size > width:
            x = n.e.op("pad", x, lo=(0, 0), hi=(0, size - width))
        columns.append(n.e.slice(x, 1, 0, size))
    return n.e.op("concat", *columns, axis=1)


TABLE: dict[str, Handler] = {
    "ArrayFeatureExtractor": _extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _vectorizer,
    "Imputer": _imputer,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
}
