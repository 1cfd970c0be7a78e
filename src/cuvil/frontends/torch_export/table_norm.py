"""Normalisations, in evaluation mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.frontends.formula import Term
from cuvil.frontends.spread import spread_of
from cuvil.frontends.torch_export.call import Call, Refused, Rule
from cuvil.ir.core import Value
from cuvil.ir.types import F32, DType
from cuvil.sym.expr import Dim, floordiv, product


def _wide(c: Call, x: Value, *others: Value | None) -> DType:
    """The dtype to compute in: x's, or f32 where statistics are wider than a 16-bit x."""
    mixed = any(o is not None and o.type.dtype != x.type.dtype for o in others)
    return F32 if mixed and x.type.dtype.size < 4 else x.type.dtype


def _affine(c: Call, name: str, x: Value, **attrs: object) -> Value:
    """A normalisation with optional weight and bias."""
    weight, bias = c.tensor_or_none("weight"), c.tensor_or_none("bias")
    dtype = _wide(c, x, weight, bias)
    operands = [c.e.cast(v, dtype) for v in (x, weight, bias) if v is not None]
    out = c.e.op(name, *operands, has_weight=weight is not None, has_bias=bias is not None, **attrs)
    return c.e.cast(out, x.type.dtype)


def _layer_norm(c: Call) -> Value:
    x = c.tensor("input")
    first = x.type.rank - len(c.dims("normalized_shape"))
    return _affine(c, "layer_norm", x, axes_from=first, eps=c["eps"])


def _statistics(c: Call, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """The mean over these axes, which stay, and 1 / sqrt(variance + eps)."""
    e = c.e
    found = spread_of(e, x, axes)
    return found.mean, e.op("rsqrt", e.with_scalar("add", found.variance, c["eps"]))


def _native_layer_norm(c: Call) -> list[Value]:
    x = c.tensor("input")
    first = x.type.rank - len(c.dims("normalized_shape"))
    found = _statistics(c, c.e.cast(x, c.dtype_of(1)), range(first, x.type.rank))
    return [_layer_norm(c), *found]


def _rms_norm(c: Call) -> Value:
    x, weight = c.tensor("input"), c.tensor_or_none("weight")
    first = x.type.rank - len(c.dims("normalized_shape"))
    eps = c.args.get("eps")
    if eps is None:
        eps = float(np.finfo(x.type.dtype.numpy).eps) if x.type.dtype.name != "bf16" else 2.0**-7
    dtype = _wide(c, x, weight)
    operands = [c.e.cast(v, dtype) for v in (x, weight) if v is not None]
    out = c.e.op(
        "rms_norm", *operands, axes_from=first, eps=float(eps), has_weight=weight is not None
    )
    return c.e.cast(out, x.type.dtype)


def _fused_rms_norm(c: Call) -> list[Value | None]:
    return [_rms_norm(c), None]


def batch_norm(c: Call, x: Value) -> Value:
    """By the running statistics; a missing weight is 1, a missing bias 0."""
    mean, variance = c.tensor_or_none("running_mean"), c.tensor_or_none("running_var")
    if mean is None or variance is None:
        return batch_norm_by_itself(c, x)
    given = (c.tensor_or_none("weight"), c.tensor_or_none("bias"), mean, variance)
    dtype = _wide(c, x, *given)
    channels = x.type.shape[1]
    operands = [
        _constant_vector(c, fill, channels, dtype) if value is None else c.e.cast(value, dtype)
        for value, fill in zip(given, (1, 0, 0, 1), strict=True)
    ]
    out = c.e.op("batch_norm", c.e.cast(x, dtype), *operands, eps=c["eps"])
    return c.e.cast(out, x.type.dtype)


def batch_norm_by_itself(c: Call, x: Value) -> Value:
    """By the mean and variance of the batch, over all axes but the channels'."""
    weight, bias = c.tensor_or_none("weight"), c.tensor_or_none("bias")
    dtype = F32 if x.type.dtype.size < 4 else x.type.dtype  # several steps, rounded once
    e = c.e
    found = spread_of(e, e.cast(x, dtype), [i for i in range(x.type.rank) if i != 1])
    gap, variance = Term(e, found.gap), Term(e, found.variance)
    out = gap * (variance + float(c["eps"])).map("rsqrt")
    for name, values in (("mul", weight), ("add", bias)):
        if values is not None:
            column = (values.type.shape[0], *(1,) * (x.type.rank - 2))
            out = out.map(name, Term(e, e.reshape(e.cast(values, dtype), column)))
    return e.cast(out.value, x.type.dtype)


def _constant_vector(c: Call, fill: float, size: Dim, dtype: DType) -> Value:
    return c.e.broadcast(c.e.scalar(fill, dtype), (size,))


def _batch_norm(c: Call) -> Value | list[Value | None]:
    x = c.tensor("input")
    if x.type.elements == 0:
        out = x
    elif c.get("training", False):
        kept = [c.tensor_or_none(n) for n in ("running_mean", "running_var")]
        if any(v is not None and v.op is not None for v in kept):
            raise Refused("batch norm in training mode changes its running statistics; "
                          "call model.eval()")  # fmt: skip
        out = batch_norm_by_itself(c, x)
    else:
        out = batch_norm(c, x)
    if not c.tuple_result:
        return out
    rest: list[Value | None] = [None] * (len(c.metas) - 1)
    if len(rest) >= 2 and x.type.elements != 0:
        rest[:2] = _batch_statistics(c, x)
    return [out, *rest]


def _batch_statistics(c: Call, x: Value) -> list[Value]:
    """The mean of the batch and 1 / its deviation in training; nothing in evaluation."""
    shapes = [c.shape_of(1), c.shape_of(2)]
    if not c.get("training", c.get("train", False)):
        return [c.e.broadcast(c.e.scalar(0, c.dtype_of(1)), s) for s in shapes]
    axes = [i for i in range(x.type.rank) if i != 1]
    found = _statistics(c, c.e.cast(x, c.dtype_of(1)), axes)
    return [c.e.reshape(v, s) for v, s in zip(found, shapes, strict=True)]


def _group_norm(c: Call) -> Value:
    return _affine(c, "group_norm", c.tensor("input"), groups=c["num_groups"], eps=c["eps"])


def _native_group_norm(c: Call) -> list[Value]:
    x = c.tensor("input")
    out = _affine(c, "group_norm", x, groups=c["group"], eps=c["eps"])
    n, channels, *rest = x.type.shape
    size = product([floordiv(channels, c["group"]), *rest])
    grouped = c.e.reshape(c.e.cast(x, c.dtype_of(1)), [n, c["group"], size])
    return [out, *(c.e.reshape(v, c.shape_of(1)) for v in _statistics(c, grouped, [2]))]


def _instance_norm(c: Call) -> Value:
    if not c.get("use_input_stats", True):
        return batch_norm(c, c.tensor("input"))
    return _affine(c, "instance_norm", c.tensor("input"), eps=c["eps"])


def _weight_norm(c: Call) -> Value | list[Value | None]:
    """v * g / |v|, the norm taken over all axes but one."""
    v, g, axis = c.tensor("v"), c.tensor("g"), c.get("dim", 0)
    axis %= v.type.rank
    axes = tuple(i for i in range(v.type.rank) if i != axis)
    total = c.e.op("reduce_sum", c.e.op("mul", v, v), axes=axes, keepdims=True)
    out = c.e.map("mul", v, c.e.map("div", g, c.e.op("sqrt", total)))
    return [out, None] if c.tuple_result else out


RULES: dict[str, Rule] = {
    "layer_norm": _layer_norm, "native_layer_norm": _native_layer_norm,
    "rms_norm": _rms_norm, "_fused_rms_norm": _fused_rms_norm,
    "batch_norm": _batch_norm, "native_batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "group_norm": _group_norm, "native_group_norm": _native_group_norm,
    "instance_norm": _instance_norm,
    "_weight_norm": _weight_norm, "_weight_norm_interface": _weight_norm,
}  # fmt: skip
