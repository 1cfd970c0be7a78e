"""From a path, bytes or ModelProto to a ModelProto that was really parsed."""

from __future__ import annotations

import os
from typing import Any, Union

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from cuvil.errors import InvalidModelError

NEWEST_OPSET = 28
Source = Union[str, "os.PathLike[str]", bytes, ModelProto]


def load_model(source: Source) -> tuple[ModelProto, str | None]:
    """The model, and the folder its external data may lie in (None without a file).

    Raises InvalidModelError where the source is missing, truncated, or no ONNX model.
    """
    if isinstance(source, ModelProto):
        model, folder = source, None
    elif isinstance(source, (bytes, bytearray, memoryview)):
        model, folder = _parse(bytes(source), "what was given as bytes"), None
    else:
        path = os.fspath(source)
        model, folder = _parse(_read(path), path), os.path.dirname(os.path.abspath(path))
    _check(model)
    _check_texts(model.graph)
    for function in model.functions:
        _check_texts(function)
    return model, folder


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidModelError(f"cannot read {path}: {error.strerror}") from None


def _parse(data: bytes, what: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise InvalidModelError(
            f"{what} is not a complete ONNX model ({len(data)} bytes)",
            hint="check that the file was downloaded or copied whole",
        ) from None
    return model


def _check(model: ModelProto) -> None:
    if not model.HasField("graph"):
        raise InvalidModelError(
            "the file holds no ONNX graph", hint="check that it is an ONNX model, and whole"
        )
    if not model.graph.output:
        raise InvalidModelError("the model's graph has no outputs")
    version = opset_table(model.opset_import)[""]
    if version > NEWEST_OPSET:
        raise InvalidModelError(
            f"the model is written in opset {version}; the newest one known here is {NEWEST_OPSET}",
            hint="convert it with onnx.version_converter, or export it for an older opset",
        )
    if not model.opset_import and model.ir_version >= 3:
        raise InvalidModelError("the model does not say which opset it is written in")


def _check_texts(graph: Any, depth: int = 0) -> None:
    """Names must be text: a damaged file gives bytes that are none.

    ``graph`` is a GraphProto or a FunctionProto. Raises InvalidModelError.
    """
    if depth > 64:
        raise InvalidModelError("graphs are nested more than 64 deep")
    names: list[Any] = [graph.name]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            names.append(attribute.name)
            inner = [attribute.g] if attribute.HasField("g") else attribute.graphs
            for g in inner:
                _check_texts(g, depth + 1)
    for tensor in getattr(graph, "initializer", ()):
        names.append(tensor.name)
    for value in (*graph.input, *graph.output):
        names.append(getattr(value, "name", value))
        kind = getattr(value, "type", None)
        if kind is not None and kind.HasField("tensor_type"):
            names += [d.dim_param for d in kind.tensor_type.shape.dim]
    for name in names:
        if not isinstance(name, str):
            raise InvalidModelError(f"the model holds a name that is not UTF-8 text: {name[:40]!r}")


def opset_table(imports: Any) -> dict[str, int]:
    """Domain to version; the default domain's two names are one, and opset 1 if not named."""
    table = {"": 1}
    for entry in imports:
        table["" if entry.domain == "ai.onnx" else entry.domain] = int(entry.version)
    return table
