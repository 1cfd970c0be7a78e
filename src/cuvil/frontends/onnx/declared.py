"""What a model declares of its outputs against what its operators give."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from onnx import GraphProto, TensorProto

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Item
from cuvil.frontends.onnx.types import UnsupportedType, dtype_from, type_name
from cuvil.ir.core import Value
from cuvil.ir.types import DType

log = logging.getLogger("cuvil")


def check_declared(
    graph: GraphProto, outputs: Mapping[str, Item | None], as_declared: bool
) -> list[str]:
    """Where the declared shapes of a graph's outputs differ from those that the operators give:
    the latter count.

    These are warned of where the inputs are ``as_declared``: else they may well differ. Raises
    InvalidModelError for an output that is declared of another element type.
    """
    notes = []
    for proto in graph.output:
        value = outputs.get(proto.name)
        if not isinstance(value, Value) or not proto.type.HasField("tensor_type"):
            continue
        tensor = proto.type.tensor_type
        _check_dtype(proto.name, tensor.elem_type, value.type.dtype)
        if tensor.HasField("shape") and _differs(tensor.shape.dim, value):
            declared = ", ".join(d.dim_param or str(d.dim_value or "?") for d in tensor.shape.dim)
            own = ", ".join(map(str, value.type.shape))
            notes.append(
                f"output {proto.name!r} is declared [{declared}], the model's operators make it "
                f"[{own}], which is what it is compiled to"
            )
    if as_declared:
        for note in notes:
            log.warning("%s; correct the declaration if that is right", note)
    return notes


def _check_dtype(name: str, code: int, have: DType) -> None:
    if code == TensorProto.UNDEFINED:
        return
    try:
        if dtype_from(code) == have:
            return
    except UnsupportedType:
        pass
    raise InvalidModelError(
        f"output {name!r} is declared {type_name(code)}, the model's operators make it {have}",
        where=f"output {name}",
        hint="correct the declaration, or insert a Cast before the output",
    )


def _differs(declared: Any, value: Value) -> bool:
    return len(declared) != value.type.rank or any(
        d.dim_value > 0 and isinstance(have, int) and d.dim_value != have
        for d, have in zip(declared, value.type.shape, strict=True)
    )
