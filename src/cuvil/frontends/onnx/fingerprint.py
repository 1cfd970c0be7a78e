"""Knowing an ONNX model again without walking its graph."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from cuvil.frontends.code_digest import LoadedCode
from cuvil.frontends.object_digest import ObjectDigest, Unknown
from cuvil.frontends.onnx.load import load_model

_BLOCK = 1 << 22


def fingerprint(model: Any, *rest: Any) -> str:
    """A digest of the model's bytes, of all files that hold its external data, and of ``rest``.

    Arrays in ``rest`` enter with dtype and shape only. Raises Unknown where a file can't be read
    or a value can't be told, InvalidModelError for what is no model.
    """
    digest = ObjectDigest(LoadedCode(), _outline)
    digest.token("onnx", onnx.__version__)
    if isinstance(model, ModelProto):
        data = model.SerializeToString(deterministic=True)
        digest.token("model", hashlib.sha256(data).digest())
    else:
        data = bytes(model) if not isinstance(model, (str, os.PathLike)) else _read(model)
        digest.token("model", hashlib.sha256(data).digest())
        # External data has an entry of this key; most models can be spared the parsing.
        if isinstance(model, (str, os.PathLike)) and b"location" in data:
            folder = os.path.dirname(os.path.abspath(os.fspath(model)))
            for name in sorted(set(_locations(load_model(data)[0].graph))):
                digest.token("external", name, _file_digest(os.path.join(folder, name)))
    digest.add(rest, "request")
    return digest.hexdigest()


def _outline(digest: ObjectDigest, value: Any) -> bool:
    if not isinstance(value, np.ndarray):
        return False
    digest.token("array", repr(value.dtype), repr(value.shape))
    return True


def _read(path: Any) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Unknown(f"{path} can't be read: {error}") from None


def _file_digest(path: str) -> bytes:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except (OSError, ValueError) as error:
        raise Unknown(f"external data can't be read: {error}") from None
    return digest.digest()


def _locations(graph: Any) -> Iterator[str]:
    """Files that tensors anywhere in the graph lie in."""
    tensors = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            tensors += [attribute.t, *attribute.tensors]
            for inner in (attribute.g, *attribute.graphs):
                yield from _locations(inner)
    for tensor in tensors:
        for entry in tensor.external_data:
            if entry.key == "location":
                yield entry.value
