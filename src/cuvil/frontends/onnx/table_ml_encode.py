"""Operators of ai.onnx.ml that look values up: encoders of labels and categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.ml_lookup import pick, position
from cuvil.frontends.onnx.node import Handler, Item, Node, Result
from cuvil.frontends.onnx.texts import Texts
from cuvil.frontends.onnx.types import string_list, tensor_array
from cuvil.ir.core import Value
from cuvil.ir.types import F32, I64

Array = np.ndarray[Any, Any]
_KINDS = ("int64s", "strings", "floats")


def _column(n: Node, role: str) -> Array:
    """The keys or values of a LabelEncoder: an array, of objects for strings."""
    lists = [k for k in _KINDS if n.attrs.get(f"{role}_{k}")]
    tensor = n.attrs.get(f"{role}_tensor")
    if len(lists) + (tensor is not None) != 1:
        raise InvalidModelError(f"{n.op} needs {role} of one type")
    if tensor is not None:
        texts = string_list(tensor)
        return _texts(texts) if texts is not None else tensor_array(tensor, n.folder).reshape(-1)
    given = n.attrs[f"{role}_{lists[0]}"]
    if lists[0] == "strings":
        return _texts(given)
    return np.array(given, dtype=np.int64 if lists[0] == "int64s" else np.float32)


def _texts(values: list[str]) -> Array:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _default(n: Node, values: Array) -> Any:
    tensor = n.attrs.get("default_tensor")
    if tensor is not None and (tensor.dims or tensor.data_type):
        texts = string_list(tensor)
        found = texts if texts is not None else tensor_array(tensor, n.folder).reshape(-1)
        if len(found) != 1 or isinstance(found[0], str) != (values.dtype == object):
            raise InvalidModelError(f"{n.op}: default_tensor does not fit its values")
        return found[0]
    if values.dtype == object:
        return n.text("default_string", "_Unused")
    if values.dtype.kind == "f":
        return n.number("default_float", -0.0)
    return n.integer("default_int64", -1)


def _encoder(n: Node) -> Result:
    if n.version < 2:
        return _two_ways(n, n.attrs.get("classes_strings", []), None)
    keys, values = _column(n, "keys"), _column(n, "values")
    if len(keys) != len(values):
        raise InvalidModelError(f"{n.op} has {len(keys)} keys and {len(values)} values")
    return _looked_up(n, keys, values, _default(n, values))


def _looked_up(n: Node, keys: Array, values: Array, default: Any) -> Item:
    """The value of each element's key, or the default; of equal keys the first counts."""
    item = n.inputs[0]
    if isinstance(item, Texts) != (keys.dtype == object):
        raise InvalidModelError(f"{n.op}: its keys do not fit its input")
    if isinstance(item, Texts):
        at = n.text_position(item, list(keys), absent=len(keys))
    else:
        x = n[0]
        if keys.dtype != x.type.dtype.numpy:
            raise InvalidModelError(f"{n.op}: keys of {keys.dtype} for {x.type}")
        at = position(n.e, x, keys, absent=len(keys))
    if values.dtype == object:
        return n.texts([*values, str(default)], at)
    return pick(n.e, np.append(values, np.array(default).astype(values.dtype)), at)


def _two_ways(n: Node, names: list[str], numbers: list[int] | None) -> Item:
    """Strings to numbers, or numbers to strings, as the input is; the last of equals counts."""
    count = list(range(len(names))) if numbers is None else numbers
    if not names or len(names) != len(count):
        raise InvalidModelError(f"{n.op} has {len(names)} strings and {len(count)} numbers")
    texts, whole = _texts(names)[::-1], np.array(count, dtype=np.int64)[::-1].copy()
    if isinstance(n.inputs[0], Texts):
        return _looked_up(n, texts, whole, n.integer("default_int64", -1))
    return _looked_up(n, whole, texts, n.text("default_string", "_Unused"))


def _mapper(n: Node) -> Result:
    return _two_ways(n, n.attrs.get("cats_strings", []), n.attrs.get("cats_int64s", []))


def _one_hot(n: Node) -> Result:
    """1 at the place of each element's category. One that is unknown is all zeros, or is an index
    out of range at run time if the model forbids it."""
    item = n.inputs[0]
    names, whole = n.attrs.get("cats_strings") or [], n.attrs.get("cats_int64s") or []
    cats: list[Any] = names if isinstance(item, Texts) else whole
    if not cats or (names and whole):
        raise InvalidModelError(f"{n.op} has no categories that fit its input")
    # The last of equal categories counts.
    back = cats[::-1]
    if isinstance(item, Texts):
        at = n.text_position(item, back, absent=-1)
    else:
        at = position(n.e, _whole(n, n[0]), np.array(back, dtype=np.int64), absent=-1)
    e, size = n.e, len(cats)
    at = e.map("sub", e.scalar(size - 1, I64), at)  # `size` where it was absent
    if not n.integer("zeros", 1):
        at = e.op("gather", e.weight(np.arange(size)), at, axis=0)
    shape = (*at.type.shape, size)
    places = e.op("iota", shape=(size,), axis=0, dtype=I64)
    same = e.op("eq", e.broadcast(e.unsqueeze(at, -1), shape), e.broadcast(places, shape))
    return e.cast(same, F32)


def _whole(n: Node, x: Value) -> Value:
    return n.e.cast(n.e.op("trunc", x) if x.type.dtype.is_float else x, I64)


TABLE: dict[str, Handler] = {
    "CategoryMapper": _mapper,
    "LabelEncoder": _encoder,
    "OneHotEncoder": _one_hot,
}
