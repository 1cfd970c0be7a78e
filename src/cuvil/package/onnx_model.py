"""An ONNX model in a package, and as a file.

The package's main file is a ModelProto whose graph comes last and has no large initializers; these
lie in the package's weights. A file gets them inside the graph, or, beyond what protobuf can hold,
from a file beside it. Field numbers are those of onnx.proto (IR version 10).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cuvil.package.format import Package

PART = "onnx.json"
# A message of protobuf is smaller than 2 GiB; what stays free is for names and the graph.
LARGEST = (1 << 31) - (1 << 20)
_MODEL_GRAPH, _GRAPH_INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _NAME, _RAW, _EXTERNAL, _LOCATION = 1, 2, 8, 9, 13, 14
_VARINT, _BYTES = 0, 2  # wire types


@dataclass(frozen=True)
class StoredTensor:
    """An initializer: ``type`` is ONNX's number, ``offset`` and ``bytes`` its place in the
    weights."""

    name: str
    type: int
    dims: tuple[int, ...]
    offset: int
    bytes: int


def pack_model(
    head: bytes, graph: bytes, tensors: Sequence[StoredTensor]
) -> tuple[bytes, dict[str, bytes]]:
    """The main file and the parts of a package."""
    facts = {"graph": len(graph), "tensors": [asdict(t) for t in tensors]}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return head + _field(_MODEL_GRAPH, len(graph)) + graph, {PART: text.encode()}


def model_pieces(package: Package, beside: str) -> tuple[list[Any], bool]:
    """A file's contents in pieces, and whether it reads the weights from the file ``beside``."""
    facts = json.loads(package.parts[PART])
    tensors = [StoredTensor(**{**t, "dims": tuple(t["dims"])}) for t in facts["tensors"]]
    main = bytes(package.library)
    graph = main[len(main) - facts["graph"] :]
    head = main[: len(main) - len(graph) - len(_field(_MODEL_GRAPH, len(graph)))]
    apart = len(main) + sum(t.bytes for t in tensors) > LARGEST
    pieces: list[Any] = [graph]
    for tensor in tensors:
        start = _tensor(tensor, beside if apart else "")
        size = len(start) + (0 if apart else tensor.bytes)
        pieces += [_field(_GRAPH_INITIALIZER, size), start]
        if not apart:
            pieces.append(package.weights[tensor.offset : tensor.offset + tensor.bytes].data)
    whole = sum(len(p) for p in pieces)
    return [head, _field(_MODEL_GRAPH, whole), *pieces], apart


def _tensor(tensor: StoredTensor, beside: str) -> bytes:
    """A TensorProto up to its data, or to the place of it in another file."""
    name = tensor.name.encode()
    out = b"".join(_number(_DIMS, d) for d in tensor.dims)
    out += _number(_DATA_TYPE, tensor.type) + _field(_NAME, len(name)) + name
    if not beside:
        return out + _field(_RAW, tensor.bytes)
    place = {"location": beside, "offset": str(tensor.offset), "length": str(tensor.bytes)}
    for key, value in place.items():
        entry = b"".join(
            _field(i, len(text)) + text for i, text in ((1, key.encode()), (2, value.encode()))
        )
        out += _field(_EXTERNAL, len(entry)) + entry
    return out + _number(_LOCATION, 1)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _field(field: int, size: int) -> bytes:
    """The start of a field of ``size`` bytes."""
    return _varint(field << 3 | _BYTES) + _varint(size)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
