"""Which operators ONNX has, and why others are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuvil.errors import UnsupportedNode
from cuvil.frontends.onnx_export import (
    contractions,
    control,
    maps,
    maps_composed,
    movement,
    order,
    recurrent,
    reductions,
    windows,
)
from cuvil.frontends.onnx_export.types import onnx_type
from cuvil.ir.control import REQUIRE
from cuvil.ir.core import Module, Op, Value

WRITERS: Mapping[str, maps.Writer] = {
    **maps.WRITERS, **maps_composed.WRITERS, **movement.WRITERS, **reductions.WRITERS,
    **contractions.WRITERS, **windows.WRITERS, **recurrent.WRITERS, **order.WRITERS,
}  # fmt: skip
# Composites that ONNX has whole.
COMPOSITES = frozenset({
    "softmax", "log_softmax", "layer_norm", "instance_norm", "lrn", "lp_norm",
})  # fmt: skip
_STRUCTURE = frozenset({"fused", "yield", "return", "sizes"})
_HINT = "keep this part in the program around the model"


def _conv(op: Op) -> str | None:
    if op.operands[0].type.dtype.is_float:
        return None
    if op.short == "conv_transpose":
        return "ONNX transposes convolutions of floats alone"
    given = {v.type.dtype for v in op.operands[:2]}
    if given <= set(windows.EIGHT_BITS):
        return None
    names = " and ".join(sorted(map(str, given)))
    return f"ONNX convolves floats and 8 bits alone, and here are {names} once zero points are off"


def _pool(op: Op) -> str | None:
    wide = op.operands[0].type.dtype.name in ("i64", "u64")
    return "ONNX pools no integers of 64 bits" if wide else None


def _rows(op: Op) -> str | None:
    return None if order.columns_known(op) else "the number of columns is not known"


REFUSALS: Mapping[str, Callable[[Op], str | None]] = {
    "conv": _conv, "conv_transpose": _conv, "max_pool": _pool, "max_pool_indices": _pool,
    "row_order": _rows,
}  # fmt: skip


def reason_against(op: Op) -> str | None:
    """Why an op can't be written as ONNX; None if it can."""
    if op.name in control.WRITERS or op.name == REQUIRE or op.short in _STRUCTURE:
        return _untyped(op.results)
    if op.short not in WRITERS or not op.name.startswith("cuvil."):
        return "ONNX has no operator for it"
    refuse = REFUSALS.get(op.short)
    found = refuse(op) if refuse is not None else None
    return found or _untyped((*op.operands, *op.results))


def _untyped(values: tuple[Value, ...] | list[Value]) -> str | None:
    for value in values:
        if onnx_type(value.type.dtype) is None:
            return f"ONNX has no element type {value.type.dtype}"
    return None


def unsupported_ops(module: Module) -> list[UnsupportedNode]:
    """All ops of a module that can't be written as ONNX."""
    found = []
    for op in module.main.walk():
        reason = reason_against(op)
        if reason is not None:
            dtype = str(op.results[0].type.dtype) if op.results else ""
            found.append(UnsupportedNode(op.name, dtype, str(op.loc), reason, _HINT))
    return found
