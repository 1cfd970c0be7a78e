"""Composites without a kernel of their own become maps and reductions.

A reduction written here keeps its dimension (size 1), so that broadcasting it back is plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuvil.ir.core import Op, Value, Weight
from cuvil.ir.types import F32, DType, Shape
from cuvil.passes.matching import constant_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule
from cuvil.sym.expr import Dim


class Writer:
    """Short forms for writing maps and reductions with a Rewriter."""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter

    def __call__(self, name: str, *operands: Value, **attrs: Any) -> Value:
        """A map whose operands are broadcast to the shape of the largest."""
        shape = self.rewriter.context.broadcast([v.type.shape for v in operands], name)
        return self.rewriter.value(name, [self.spread(v, shape) for v in operands], **attrs)

    def spread(self, value: Value, shape: Shape) -> Value:
        """Broadcast to ``shape`` unless it has it."""
        if value.type.shape == tuple(shape):
            return value
        return self.rewriter.value("broadcast", [value], shape=tuple(shape))

    def number(self, number: float, dtype: DType) -> Value:
        """A rank-0 constant."""
        return self.rewriter.value("constant", value=Weight(np.asarray(number, dtype.numpy)))

    def reduce(self, name: str, value: Value, axes: Sequence[int]) -> Value:
        """A reduction that keeps its dimensions."""
        return self.rewriter.value(name, [value], axes=tuple(axes), keepdims=True)

    def reshape(self, value: Value, shape: Sequence[Dim]) -> Value:
        """Reshape unless it has that shape."""
        if value.type.shape == tuple(shape):
            return value
        return self.rewriter.value("reshape", [value], shape=tuple(shape))

    def cast(self, value: Value, dtype: DType) -> Value:
        """Cast unless it has that dtype."""
        if value.type.dtype == dtype:
            return value
        return self.rewriter.value("cast", [value], dtype=dtype)


def _accumulator(dtype: DType) -> DType:
    return dtype if dtype.size >= 4 else F32


def _centred(w: Writer, x: Value, axes: Sequence[int], eps: float) -> Value:
    """(x - mean) / sqrt(variance + eps) over some axes.

    A mean is rounded, so the gaps to it have a mean of their own, and that is taken out: of equal
    elements nothing is left (T. Chan, G. Golub and R. LeVeque, "Algorithms for computing the
    sample variance", 1983). Both sums are made in one walk.
    """
    dtype = x.type.dtype
    gap = w("sub", x, w.reduce("reduce_mean", x, axes))
    rest = w.reduce("reduce_mean", gap, axes)
    square = w.reduce("reduce_mean", w("mul", gap, gap), axes)
    spread = w("abs", w("sub", square, w("mul", rest, rest)))  # rounding may take it below 0
    return w("mul", w("sub", gap, rest), w("rsqrt", w("add", spread, w.number(eps, dtype))))


@rule("decompose-softmax", "softmax", "log_softmax")
def decompose_softmax(op: Op, context: Context) -> Outcome:
    """softmax(x) -> e / sum(e), e = exp(x - max(x)); log_softmax(x) -> s - log(sum(exp(s)))"""
    axis = op.attrs["axis"] % max(op.type.rank, 1)

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        dtype = _accumulator(op.type.dtype)
        x = w.cast(op.operands[0], dtype)
        if op.type.rank == 0:
            x = w.reshape(x, (1,))
        shifted = w("sub", x, w.reduce("reduce_max", x, [axis]))
        e = w("exp", shifted)
        total = w.reduce("reduce_sum", e, [axis])
        out = w("div", e, total) if op.short == "softmax" else w("sub", shifted, w("log", total))
        return [w.cast(w.reshape(out, op.type.shape), op.type.dtype)]

    return action


@rule("decompose-norm", "layer_norm", "rms_norm")
def decompose_norm(op: Op, context: Context) -> Outcome:
    """layer_norm(x, w, b) -> (x - mean) * rsqrt(var + eps) * w + b; rms_norm without the mean"""
    rank = op.type.rank
    axes = range(op.attrs["axes_from"] % rank, rank)

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        dtype = _accumulator(op.type.dtype)
        x = w.cast(op.operands[0], dtype)
        rest = list(op.operands[1:])
        if op.short == "layer_norm":
            out = _centred(w, x, axes, op.attrs["eps"])
        else:
            square = w.reduce("reduce_mean", w("mul", x, x), axes)
            out = w("mul", x, w("rsqrt", w("add", square, w.number(op.attrs["eps"], dtype))))
        if op.attrs.get("has_weight"):
            out = w("mul", out, w.cast(rest.pop(0), dtype))
        if op.attrs.get("has_bias"):
            out = w("add", out, w.cast(rest.pop(0), dtype))
        return [w.cast(out, op.type.dtype)]

    return action


@rule("decompose-group-norm", "group_norm", "instance_norm")
def decompose_group_norm(op: Op, context: Context) -> Outcome:
    """group_norm(x) -> reshape to [N, G, C/G, *], normalise over the last ones, back, scale"""
    shape = op.type.shape
    channels = shape[1]
    groups = channels if op.short == "instance_norm" else op.attrs["groups"]

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        dtype = _accumulator(op.type.dtype)
        x = w.cast(op.operands[0], dtype)
        rest = list(op.operands[1:])
        split = (shape[0], groups, channels // groups, *shape[2:])
        x = w.reshape(x, split)
        x = w.reshape(_centred(w, x, range(2, len(split)), op.attrs["eps"]), shape)
        column = (channels,) + (1,) * (len(shape) - 2)
        if op.attrs.get("has_weight"):
            x = w("mul", x, w.reshape(w.cast(rest.pop(0), dtype), column))
        if op.attrs.get("has_bias"):
            x = w("add", x, w.reshape(w.cast(rest.pop(0), dtype), column))
        return [w.cast(x, op.type.dtype)]

    return action


@rule("decompose-batch-norm", "batch_norm")
def decompose_batch_norm(op: Op, context: Context) -> Outcome:
    """batch_norm(x, w, b, mean, var) -> x * s + (b - mean * s), s = w / sqrt(var + eps)"""
    x, *parameters = op.operands
    arrays = [constant_of(p) for p in parameters]
    column = (op.type.shape[1],) + (1,) * (op.type.rank - 2)
    eps = op.attrs["eps"]

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        dtype = _accumulator(op.type.dtype)
        if all(a is not None for a in arrays):
            weight, bias, mean, var = (np.asarray(a, np.float64) for a in arrays)
            factor = weight / np.sqrt(var + eps)
            scale, shift = (
                rw.value("constant", value=Weight(a.astype(dtype.numpy)))
                for a in (factor, bias - mean * factor)
            )
        else:
            weight_v, bias_v, mean_v, var_v = (w.cast(p, dtype) for p in parameters)
            scale = w("div", weight_v, w("sqrt", w("add", var_v, w.number(eps, dtype))))
            shift = w("sub", bias_v, w("mul", mean_v, scale))
        scaled = w("mul", w.cast(x, dtype), w.reshape(scale, column))
        return [w.cast(w("add", scaled, w.reshape(shift, column)), op.type.dtype)]

    return action


@rule("decompose-lrn", "lrn")
def decompose_lrn(op: Op, context: Context) -> Outcome:
    """lrn(x) -> x / (bias + alpha / size * sum of squares over nearby channels) ^ beta"""
    size = op.attrs["size"]
    shape = op.type.shape

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        dtype = _accumulator(op.type.dtype)
        x = w.cast(op.operands[0], dtype)
        square = w("mul", x, x)
        before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
        lo, hi = [0] * len(shape), [0] * len(shape)
        lo[1], hi[1] = before, after
        padded = rw.value("pad", [square], lo=tuple(lo), hi=tuple(hi), mode="constant", value=0.0)
        total: Value | None = None
        for k in range(size):
            start = tuple(k if i == 1 else 0 for i in range(len(shape)))
            part = rw.value("slice", [padded], start=start, size=shape, step=(1,) * len(shape))
            total = part if total is None else w("add", total, part)
        assert total is not None
        base = w("add", w("mul", total, w.number(op.attrs["alpha"] / size, dtype)),
                 w.number(op.attrs["bias"], dtype))  # fmt: skip
        out = w("div", x, w("pow", base, w.number(op.attrs["beta"], dtype)))
        return [w.cast(out, op.type.dtype)]

    return action


@rule("decompose-lp-norm", "lp_norm")
def decompose_lp_norm(op: Op, context: Context) -> Outcome:
    """lp_norm(x) -> x / n, n = ||x||_p for p = 1 or 2; 0 where n is 0"""
    axis = op.attrs["axis"] % max(op.type.rank, 1)

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        dtype = _accumulator(op.type.dtype)
        x = w.cast(op.operands[0], dtype)
        if op.type.rank == 0:
            x = w.reshape(x, (1,))
        if op.attrs["p"] == 1:
            norm = w.reduce("reduce_sum", w("abs", x), [axis])
        else:
            norm = w("sqrt", w.reduce("reduce_sum", w("mul", x, x), [axis]))
        # A norm of 0 means elements of 0 (or squares that vanish), and those are to give 0.
        none = w("eq", norm, w.number(0, dtype))
        scaled = w("div", x, w("select", none, w.number(np.inf, dtype), norm))
        return [w.cast(w.reshape(scaled, op.type.shape), op.type.dtype)]

    return action


_REDUCTIONS = (
    "reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_any",
    "reduce_all", "argmax", "argmin",
)  # fmt: skip


@rule("reduce-nothing", *_REDUCTIONS)
def reduce_nothing(op: Op, context: Context) -> Outcome:
    """reduce(x) -> x, over no axes; argmax(x) -> 0, of a scalar"""
    x = op.operands[0]
    if op.short.startswith("arg"):
        if x.type.rank:
            return Refusal("it has an axis")
        return lambda rw: [Writer(rw).number(0, op.type.dtype)]
    if x.type.rank and op.attrs["axes"]:
        return Refusal("it has an axis")
    return lambda rw: [x]


@rule("keep-reduced-dims", *_REDUCTIONS)
def keep_reduced_dims(op: Op, context: Context) -> Outcome:
    """reduce(x, keepdims=false) -> reshape(reduce(x, keepdims=true))"""
    if op.attrs.get("keepdims"):
        return Refusal("it keeps its dimensions")

    def action(rw: Rewriter) -> list[Value]:
        kept = rw.op(op.name, op.operands, {**op.attrs, "keepdims": True}).result
        return [Writer(rw).reshape(kept, op.type.shape)]

    return action


@rule("conv-bias", "conv", "conv_transpose")
def split_conv_bias(op: Op, context: Context) -> Outcome:
    """conv(x, w, b) -> conv(x, w) + b, for the epilogue"""
    if not op.attrs.get("has_bias"):
        return Refusal("it has no bias")

    def action(rw: Rewriter) -> list[Value]:
        w = Writer(rw)
        x, weight, bias = op.operands
        plain = rw.op(op.name, [x, weight], {**op.attrs, "has_bias": False}).result
        last = bool(op.attrs.get("channels_last"))
        column = (-1,) if last else (1,) * (op.type.rank - 2)
        shape = bias.type.shape if last else (bias.type.shape[0], *column)
        return [w("add", plain, w.reshape(bias, shape))]

    return action


RULES: list[Rule] = [
    decompose_softmax,
    decompose_norm,
    decompose_group_norm,
    decompose_batch_norm,
    decompose_lrn,
    decompose_lp_norm,
    reduce_nothing,
    keep_reduced_dims,
    split_conv_bias,
]
