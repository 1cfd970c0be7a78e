"""Whether a file holds an ONNX model, told by its bytes: the suffix may be any."""

from __future__ import annotations

import os
from typing import BinaryIO

_VARINT, _BYTES = 0, 2
# The fields of ModelProto (onnx.proto) and their wire types; metadata, training and functions too.
_FIELDS = {1: _VARINT, 2: _BYTES, 3: _BYTES, 4: _BYTES, 5: _VARINT, 6: _BYTES, 7: _BYTES,
           8: _BYTES, 14: _BYTES, 20: _BYTES, 25: _BYTES, 26: _BYTES}  # fmt: skip
_GRAPH = 7
_MOST = 10  # bytes of a number


def holds_onnx(path: str | os.PathLike[str]) -> bool:
    """Whether the file is a whole message of ModelProto's fields, a graph among them. Only the
    lengths of fields are read, no field."""
    try:
        with open(path, "rb") as file:
            return _is_model(file, os.fstat(file.fileno()).st_size)
    except OSError:
        return False


def _is_model(file: BinaryIO, size: int) -> bool:
    found = set()
    while (at := file.tell()) < size:
        tag = _number(file)
        if tag is None or _FIELDS.get(tag >> 3) != tag & 7:
            return False
        value = _number(file)
        if value is None:
            return False
        if tag & 7 == _BYTES:
            if file.tell() + value > size:
                return False
            file.seek(value, os.SEEK_CUR)
        found.add(tag >> 3)
        assert file.tell() > at
    return _GRAPH in found


def _number(file: BinaryIO) -> int | None:
    value = 0
    for place in range(_MOST):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << (7 * place)
        if byte[0] < 0x80:
            return value
    return None
