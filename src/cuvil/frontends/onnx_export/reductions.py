"""Reductions and normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cuvil.frontends.onnx_export.integers import exact_product, exact_sum
from cuvil.frontends.onnx_export.maps import WIDE, Writer
from cuvil.frontends.onnx_export.scope import Scope
from cuvil.ir.core import Op
from cuvil.ir.types import (
    BF16,
    BOOL,
    F16,
    F32,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
    Shape,
)
from cuvil.sym.expr import add

_INTEGERS = (I8, I16, I32, U8, U16, U32, U64)
_SUMMED: Mapping[DType, DType] = {**dict.fromkeys(_INTEGERS, I64), BF16: F32}
_EXACT = {"ReduceSum": exact_sum, "ReduceProd": exact_product}
_F32: Mapping[DType, DType] = {BF16: F32}
_COMPARED: Mapping[DType, DType] = {**WIDE, BOOL: I32}


def _reduce(name: str, compute: Mapping[DType, DType]) -> Writer:
    def write(scope: Scope, op: Op) -> list[str]:
        (x,) = op.operands
        dtype = compute.get(x.type.dtype, x.type.dtype)
        axes = sorted(a % max(x.type.rank, 1) for a in op.attrs["axes"])
        source = scope.cast(scope.name(x), x.type.dtype, dtype)
        if not axes or not x.type.rank:
            return [scope.cast(source, dtype, x.type.dtype)]
        keep = int(op.attrs["keepdims"])
        if dtype == I64 and name in _EXACT:
            made = _EXACT[name](scope, source, x.type.with_dtype(I64), axes)
            made = scope.node("Unsqueeze", made, scope.ints(axes)) if keep else made
        else:
            made = scope.node(name, source, scope.ints(axes), keepdims=keep)
        return [scope.cast(made, dtype, x.type.dtype)]

    return write


def _count(wanted: bool) -> Writer:
    """Whether any is true; whether none is false."""
    def write(scope: Scope, op: Op) -> list[str]:
        (x,) = op.operands
        name = scope.name(x)
        if not op.attrs["axes"] or not x.type.rank:
            return [name]
        flag = name if wanted else scope.node("Not", name)
        axes = scope.ints([a % x.type.rank for a in op.attrs["axes"]])
        keep = int(op.attrs["keepdims"])
        total = scope.node("ReduceSum", scope.cast(flag, BOOL, I64), axes, keepdims=keep)
        none = scope.node("Equal", total, scope.number(0, I64))
        return [scope.node("Not", none) if wanted else none]

    return write


def _arg(name: str) -> Writer:
    def write(scope: Scope, op: Op) -> list[str]:
        (x,) = op.operands
        dtype = _COMPARED.get(x.type.dtype, x.type.dtype)
        source = scope.cast(scope.name(x), x.type.dtype, dtype)
        if not x.type.rank:
            return [scope.number(0, I64)]
        keep = int(op.attrs["keepdims"])
        attributes: dict[str, Any] = {"axis": op.attrs["axis"], "keepdims": keep}
        if op.attrs.get("last", False):
            attributes["select_last_index"] = 1
        return [scope.node(name, source, **attributes)]

    return write


def _along(name: str) -> Writer:
    """Along one axis of a float tensor."""
    def write(scope: Scope, op: Op) -> list[str]:
        (x,) = op.operands
        dtype = _F32.get(x.type.dtype, x.type.dtype)
        source = scope.cast(scope.name(x), x.type.dtype, dtype)
        if not x.type.rank:
            source = scope.node("Unsqueeze", source, scope.ints([0]))
        rest = {"p": op.attrs["p"]} if "p" in op.attrs else {}
        made = scope.node(name, source, axis=op.attrs["axis"], **rest)
        if not x.type.rank:
            made = scope.node("Squeeze", made, scope.ints([0]))
        return [scope.cast(made, dtype, x.type.dtype)]

    return write


def _full(scope: Scope, value: float, shape: Shape, dtype: DType) -> str:
    if all(isinstance(d, int) for d in shape):
        return scope.constant(np.full(shape, value, dtype.numpy), "full")
    return scope.node("Expand", scope.number(value, dtype), scope.shape(shape))


def _affine(scope: Scope, op: Op, shape: Shape, dtype: DType) -> list[str]:
    """Weight and, if there is one, bias in the type that is computed in."""
    rest = [scope.cast(scope.name(v), v.type.dtype, dtype) for v in op.operands[1:]]
    weight = rest.pop(0) if op.attrs.get("has_weight") else _full(scope, 1, shape, dtype)
    return [weight, *rest]


def _layer_norm(scope: Scope, op: Op) -> list[str]:
    x = op.operands[0]
    dtype = F32 if x.type.dtype in (BF16, F16) else x.type.dtype
    source = scope.cast(scope.name(x), x.type.dtype, dtype)
    first = op.attrs["axes_from"] % x.type.rank
    made = scope.node(
        "LayerNormalization", source, *_affine(scope, op, x.type.shape[first:], dtype), axis=first,
        epsilon=op.attrs["eps"],
    )  # fmt: skip
    return [scope.cast(made, dtype, x.type.dtype)]


def _instance_norm(scope: Scope, op: Op) -> list[str]:
    x = op.operands[0]
    dtype = F32 if x.type.dtype in (BF16, F16) else x.type.dtype
    source = scope.cast(scope.name(x), x.type.dtype, dtype)
    channels = x.type.shape[1:2]
    parameters = _affine(scope, op, channels, dtype)
    if len(parameters) == 1:
        parameters.append(_full(scope, 0, channels, dtype))
    if x.type.rank == 2:  # each element is its own mean
        away = scope.node("Mul", scope.node("Sub", source, source), parameters[0])
        made = scope.node("Add", away, parameters[1])
    else:
        made = scope.node("InstanceNormalization", source, *parameters, epsilon=op.attrs["eps"])
    return [scope.cast(made, dtype, x.type.dtype)]


def _lrn(scope: Scope, op: Op) -> list[str]:
    """Runtimes have it for odd sizes; others are summed up."""
    (x,) = op.operands
    a = op.attrs
    dtype = F32 if x.type.dtype in (BF16, F16) else x.type.dtype
    source = scope.cast(scope.name(x), x.type.dtype, dtype)
    size = a["size"]
    if size % 2:
        made = scope.node("LRN", source, size=size, alpha=a["alpha"], beta=a["beta"],
                          bias=a["bias"])  # fmt: skip
        return [scope.cast(made, dtype, x.type.dtype)]
    rest = [0] * (x.type.rank - 2)
    before = (size - 1) // 2
    pads = scope.ints([0, before, *rest, 0, size - 1 - before, *rest])
    padded = scope.node("Pad", scope.node("Mul", source, source), pads)
    near = [
        scope.node("Slice", padded, scope.ints([k]), scope.dim(add(x.type.shape[1], k)),
                   scope.ints([1]))
        for k in range(size)
    ]  # fmt: skip
    total = scope.node("Mul", scope.node("Sum", *near), scope.number(a["alpha"] / size, dtype))
    base = scope.node("Add", total, scope.number(a["bias"], dtype))
    made = scope.node("Div", source, scope.node("Pow", base, scope.number(a["beta"], dtype)))
    return [scope.cast(made, dtype, x.type.dtype)]


WRITERS: Mapping[str, Writer] = {
    "reduce_sum": _reduce("ReduceSum", _SUMMED),
    "reduce_mean": _reduce("ReduceMean", WIDE),
    "reduce_prod": _reduce("ReduceProd", _SUMMED),
    "reduce_max": _reduce("ReduceMax", _COMPARED),
    "reduce_min": _reduce("ReduceMin", _COMPARED),
    "reduce_any": _count(True),
    "reduce_all": _count(False),
    "argmax": _arg("ArgMax"),
    "argmin": _arg("ArgMin"),
    "softmax": _along("Softmax"),
    "log_softmax": _along("LogSoftmax"),
    "lp_norm": _along("LpNormalization"),
    "layer_norm": _layer_norm,
    "instance_norm": _instance_norm,
    "lrn": _lrn,
}
