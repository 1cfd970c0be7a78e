"""Normalisations."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.frontends.spread import spread_of
from cuvil.ir.core import Value
from cuvil.ir.types import F32, DType
from cuvil.sym.expr import Dim, product


def _batch_norm(n: Node) -> list[Value | None]:
    """Inference uses the given statistics (BatchNormalization-15); parameters may be wider."""
    e, x = n.e, n[0]
    eps = n.number("epsilon", 1e-5)
    kind = max((n[i].type.dtype for i in range(5)), key=lambda d: d.size)
    parameters = [e.cast(n[i], kind) for i in range(1, 5)]
    wide = e.cast(x, kind)
    training = n.version >= 14 and n.integer("training_mode", 0)
    training = training or (n.version < 7 and not n.integer("is_test", 0) and n.wants(1))
    if x.type.rank == 1:
        wide = e.unsqueeze(wide, 1)
    if not training:
        out = e.op("batch_norm", wide, *parameters, eps=eps)
        return [e.cast(e.reshape(out, x.type.shape), x.type.dtype)]
    axes = (0, *range(2, wide.type.rank))
    found = spread_of(e, wide, axes)
    mean, var = e.squeeze(found.mean, axes), e.squeeze(found.variance, axes)
    out = e.op("batch_norm", wide, *parameters[:2], mean, var, eps=eps)
    momentum = n.number("momentum", 0.9)
    running = [
        e.op("add", e.with_scalar("mul", old, momentum), e.with_scalar("mul", new, 1 - momentum))
        for old, new in zip(parameters[2:], (mean, var), strict=True)
    ]
    first = e.cast(e.reshape(out, x.type.shape), x.type.dtype)
    return [first, *(e.cast(v, n[3].type.dtype) for v in running)]


def _instance_norm(n: Node) -> Value:
    eps = n.number("epsilon", 1e-5)
    return n.e.op("instance_norm", n[0], n[1], n[2], eps=eps, has_weight=True, has_bias=True)


def _group_norm(n: Node) -> Value:
    """Scale and bias are per group in GroupNormalization-18, per channel since 21."""
    e, x = n.e, n[0]
    groups = n.integer("num_groups")
    if n.version >= 21:
        x = n.sized(x, 1, n[1].type.elements, "channels of the scale")
    channels = n.size(x.type.shape, 1, "the number of channels")
    scale, bias = n[1], n[2]
    if n.version < 21:
        shape = (groups, channels // groups)
        scale, bias = (
            e.reshape(e.broadcast(e.unsqueeze(v, 1), shape), (channels,)) for v in (scale, bias)
        )
    eps = n.number("epsilon", 1e-5)
    return e.op(
        "group_norm", x, scale, bias, groups=groups, eps=eps, has_weight=True, has_bias=True
    )


def _tail(n: Node, index: int, axis: int, kind: DType) -> Value | None:
    """A scale or bias spread over the normalised dims."""
    if not n.has(index):
        return None
    return n.e.broadcast(n.e.cast(n[index], kind), n[0].type.shape[axis:])


def _layer_norm(n: Node) -> list[Value]:
    e, x = n.e, n[0]
    axis = n.axis("axis", -1, x.type.rank)
    eps = n.number("epsilon", 1e-5)
    kind = x.type.dtype
    given = [_tail(n, 1, axis, kind), _tail(n, 2, axis, kind)]
    out = e.op(
        "layer_norm", x, *(v for v in given if v is not None), axes_from=axis, eps=eps,
        has_weight=given[0] is not None, has_bias=given[1] is not None,
    )  # fmt: skip
    if not n.wants(1) and not n.wants(2):
        return [out]
    axes = tuple(range(axis, x.type.rank))
    wide = e.cast(x, F32) if n.integer("stash_type", 1) == 1 else x
    found = spread_of(e, wide, axes)
    return [out, found.mean, e.op("rsqrt", e.with_scalar("add", found.variance, eps))]


def _rms_norm(n: Node) -> Value:
    x = n[0]
    axis = n.axis("axis", -1, x.type.rank)
    scale = _tail(n, 1, axis, x.type.dtype)
    if scale is None:
        raise InvalidModelError("RMSNormalization needs a scale")
    return n.e.op(
        "rms_norm", x, scale, axes_from=axis, eps=n.number("epsilon", 1e-5), has_weight=True
    )


def simplified(n: Node) -> list[Value]:
    """SimplifiedLayerNormalization: x / sqrt(mean(x**2) + epsilon) * scale over the dims from
    ``axis`` on (onnxruntime puts it into the default domain)."""
    e, x = n.e, n[0]
    axis = n.axis("axis", -1, x.type.rank)
    eps = n.number("epsilon", 1e-5)
    scale = e.broadcast(e.cast(n[1], x.type.dtype), x.type.shape[axis:])
    out = e.op("rms_norm", x, scale, axes_from=axis, eps=eps, has_weight=True)
    if not n.wants(1):
        return [out]
    axes = tuple(range(axis, x.type.rank))
    wide = e.cast(x, F32)
    square = e.op("reduce_mean", e.op("mul", wide, wide), axes=axes, keepdims=True)
    return [out, e.op("rsqrt", e.with_scalar("add", square, eps))]


def _lrn(n: Node) -> Value:
    return n.e.op(
        "lrn", n[0], size=n.integer("size"), alpha=n.number("alpha", 1e-4),
        beta=n.number("beta", 0.75), bias=n.number("bias", 1.0),
    )  # fmt: skip


def _lp_norm(n: Node) -> Value:
    return n.e.op("lp_norm", n[0], axis=n.axis("axis", -1, n[0].type.rank), p=n.integer("p", 2))


def _mean_variance(n: Node) -> Value:
    """(x - mean) / (sqrt(variance) + 1e-9) over the axes (MeanVarianceNormalization-13)."""
    e, x = n.e, n[0]
    axes = tuple(sorted(n.count(a, x.type.rank) for a in n.integers("axes", [0, 2, 3])))
    count: Dim = product(x.type.shape[a] for a in axes)
    if count == 0:
        return x
    found = spread_of(e, x, axes)
    return e.map("div", found.gap, e.with_scalar("add", e.op("sqrt", found.variance), 1e-9))


TABLE: dict[str, Handler] = {
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "SimplifiedLayerNormalization": simplified,
    "LRN": _lrn,
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mean_variance,
}
