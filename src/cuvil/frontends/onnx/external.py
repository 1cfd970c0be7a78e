"""External data: tensors whose bytes lie in files beside the model."""

from __future__ import annotations

import mmap
import os
from typing import Any

from onnx import TensorProto

from cuvil.errors import InvalidModelError


def read_external(tensor: TensorProto, folder: str | None, size: int) -> Any:
    """``size`` bytes of a tensor's external file, mapped rather than read.

    The file must lie inside ``folder`` once symbolic links are resolved, be a regular file, and
    hold offset + size bytes. Raises InvalidModelError otherwise.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    what = f"external data of tensor {tensor.name!r}"
    location = entries.get("location", "")
    if folder is None:
        raise InvalidModelError(
            f"{what}: the model was given without a folder",
            hint="give the path of the model file instead of its bytes",
        )
    if not location or os.path.isabs(location) or "\0" in location:
        raise InvalidModelError(f"{what}: {location!r} is not a relative path")
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if os.path.commonpath([root, path]) != root:
        raise InvalidModelError(
            f"{what}: {location!r} lies outside the model's folder",
            hint="put the data file beside the model file",
        )
    if not os.path.isfile(path):
        raise InvalidModelError(f"{what}: there is no file {location!r} beside the model")
    offset = _number(entries.get("offset", "0"), what)
    length = _number(entries.get("length", str(size)), what)
    if length != size:
        raise InvalidModelError(f"{what}: length {length} does not fit its shape ({size} bytes)")
    available = os.path.getsize(path)
    if offset + size > available:
        raise InvalidModelError(
            f"{what}: needs bytes {offset} to {offset + size} of {location!r}, "
            f"which has {available}"
        )
    return _map(path, offset, size)


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise InvalidModelError(f"{what}: {text!r} is not an offset or length")
    return int(text)


def _map(path: str, offset: int, size: int) -> Any:
    if size == 0:
        return b""
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    length = offset - start + size
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ, offset=start)
    return memoryview(data)[offset - start :]
