"""Operators over maps, which Python takes apart before the library, or makes after."""

from __future__ import annotations

from onnx import TensorProto

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node, Refused, Result
from cuvil.frontends.onnx.texts import MapInput, Maps, Texts
from cuvil.frontends.onnx.types import dtype_from
from cuvil.ir.types import F32, I64

_MOST_KEYS = 1 << 20


def _map(n: Node) -> MapInput:
    item = n.inputs[0]
    if not isinstance(item, MapInput):
        raise Refused("its map is not an input of the model", "give the model the map itself")
    return item


def _dict_vectorizer(n: Node) -> Result:
    """The values of the vocabulary's keys, [1, keys]; 0 or "" for a key that is not there."""
    item = _map(n)
    keys = n.attrs.get("string_vocabulary" if item.text_keys else "int64_vocabulary")
    if not keys:
        raise InvalidModelError(f"{n.op} has no vocabulary that fits its input")
    if item.values == TensorProto.STRING:
        n.words.number("")
        return Texts(n.map_columns(item, keys, I64))
    return n.map_columns(item, keys, dtype_from(item.values))


def _cast_map(n: Node) -> Result:
    """The values of keys 0 to max_map - 1. A dense map's size is known when it comes."""
    item, to = _map(n), n.text("cast_to", "TO_FLOAT")
    size = n.integer("max_map", 1)
    if n.text("map_form", "DENSE") != "SPARSE":
        raise Refused("the size of its result is that of the map", "use map_form SPARSE")
    if item.text_keys or not 1 <= size <= _MOST_KEYS:
        raise InvalidModelError(f"{n.op} takes a map of integers, and max_map is {size}")
    if item.values != TensorProto.FLOAT or to not in ("TO_FLOAT", "TO_INT64"):
        raise Refused(f"it makes {to[3:].lower()} of strings or strings of numbers")
    row = n.map_columns(item, range(size), F32)
    return row if to == "TO_FLOAT" else n.e.cast(n.e.op("trunc", row), I64)


def _zip_map(n: Node) -> Result:
    """A map from each label to its column for each row."""
    whole, texts = n.integers("classlabels_int64s", []), n.attrs.get("classlabels_strings", [])
    keys = tuple(whole or texts)
    x = n[0] if n[0].type.rank != 1 else n.e.unsqueeze(n[0], 0)
    if (whole and texts) or not keys or x.type.rank != 2:
        raise InvalidModelError(f"{n.op} needs labels of one type and [N, labels], not {x.type}")
    n.e.context.require(x.type.shape[1], "==", len(keys), f"{n.op}: labels and columns")
    return Maps(keys, n.e.cast(x, F32))


TABLE: dict[str, Handler] = {
    "CastMap": _cast_map,
    "DictVectorizer": _dict_vectorizer,
    "ZipMap": _zip_map,
}
