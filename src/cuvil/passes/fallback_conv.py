"""Convolutions without a native kernel become matrix products or convolutions that have one.

In: convolutions of any type and rank, without a bias. Out: f32 convolutions whose weights are
constant and whose rank the native kernels have, and products. All rules work with the channels
last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.analysis.contraction_views import BYTES, NATIVE_RANK
from cuvil.ir.core import Op, Value, Weight
from cuvil.ir.types import BF16, F16, F32
from cuvil.passes.decompose import Writer
from cuvil.passes.matching import constant_of
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule
from cuvil.sym.expr import Dim, add, mul, product


def _static(values: Sequence[Dim]) -> list[int] | None:
    """The dimensions as integers, or None where one is symbolic."""
    known = [v for v in values if isinstance(v, int)]
    return known if len(known) == len(values) else None


def _is_native(op: Op) -> bool:
    """Whether the native kernels take it, once its channels are last."""
    if op.attrs.get("algorithm") == BYTES:
        return True
    f32 = op.type.dtype == F32 and all(v.type.dtype == F32 for v in op.operands)
    return f32 and op.type.rank <= NATIVE_RANK[op.short] and constant_of(op.operands[1]) is not None


def _not_here(op: Op) -> Refusal | None:
    """What keeps every rule of this file away."""
    if op.attrs["has_bias"]:
        return Refusal("its bias is still to be split off")
    if op.type.dtype in (F16, BF16) or any(v.type.dtype in (F16, BF16) for v in op.operands):
        return Refusal("it is computed in f32")
    if _is_native(op):
        return Refusal("it has a kernel")
    return None


class _Movements:
    """Movements of images [N, *spatial, C]."""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self.write = Writer(rewriter)

    def turned(self, value: Value, perm: Sequence[int]) -> Value:
        """Transposed, unless that changes nothing."""
        if list(perm) == list(range(value.type.rank)):
            return value
        return self.rewriter.value("transpose", [value], perm=tuple(perm))

    def channels_last(self, op: Op) -> Value:
        """The input with its channels last."""
        x = op.operands[0]
        if op.attrs.get("channels_last"):
            return x
        return self.turned(x, (0, *range(2, x.type.rank), 1))

    def as_asked(self, op: Op, value: Value) -> Value:
        """A result with channels last in the layout of ``op``."""
        if op.attrs.get("channels_last"):
            return value
        rank = value.type.rank
        return self.turned(value, (0, rank - 1, *range(1, rank - 1)))

    def part(self, value: Value, axis: int, start: Dim, size: Dim, step: int = 1) -> Value:
        """Some elements along one axis."""
        rank = value.type.rank
        starts, steps = [0 if i != axis else start for i in range(rank)], [1] * rank
        sizes = list(value.type.shape)
        sizes[axis], steps[axis] = size, step
        return self.rewriter.value(
            "slice", [value], start=tuple(starts), size=tuple(sizes), step=tuple(steps)
        )

    def padded(
        self, value: Value, axis: int, low: int, high: int, fill: float = 0.0
    ) -> Value:
        """``fill`` before and after along one axis; negative pads crop."""
        if min(low, high) < 0:
            size = add(value.type.shape[axis], min(low, 0) + min(high, 0))
            value = self.part(value, axis, max(-low, 0), size)
        if max(low, high) <= 0:
            return value
        before, after = [0] * value.type.rank, [0] * value.type.rank
        before[axis], after[axis] = max(low, 0), max(high, 0)
        return self.rewriter.value(
            "pad", [value], lo=tuple(before), hi=tuple(after), mode="constant", value=fill
        )

    def joined(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenated, if there are several."""
        if len(values) == 1:
            return values[0]
        return self.rewriter.value("concat", values, axis=axis)

    def weights(
        self, value: Value, shape: Sequence[Dim], perm: Sequence[int], final: Sequence[Dim],
        flip: Sequence[int] = (),
    ) -> Value:  # fmt: skip
        """Weights flipped, reshaped, transposed and reshaped: at once if they are constant."""
        array = constant_of(value)
        if array is not None:
            sizes, last = (_static(dims) or [] for dims in (shape, final))
            moved = np.flip(array, tuple(flip)).reshape(sizes).transpose(perm).reshape(last)
            return self.rewriter.value("constant", value=Weight(np.ascontiguousarray(moved)))
        for axis in flip:
            size = value.type.shape[axis]
            value = self.part(value, axis, add(size, -1), size, -1)
        value = self.write.reshape(value, shape)
        return self.write.reshape(self.turned(value, perm), final)


def _patches(m: _Movements, op: Op, kernel: Sequence[int]) -> Value:
    """[N, *spatial, C] to [N * places, taps, C]: what each window sees."""
    a = op.attrs
    x = m.channels_last(op)
    counts = op.type.shape[1:-1] if a.get("channels_last") else op.type.shape[2:]
    for i in range(len(kernel)):
        x = m.padded(x, i + 1, a["pads_lo"][i], a["pads_hi"][i], float(a.get("pad_value", 0)))
    if int(np.prod(kernel, dtype=np.int64)) > 1:  # then a tap is runs of channels, inside always
        x = m.rewriter.value("materialize", [x])
    channels = x.type.shape[-1]
    rows = product((x.type.shape[0], *counts))
    pieces = []
    for tap in np.ndindex(*kernel):
        piece = m.rewriter.value(
            "slice", [x],
            start=(0, *(t * d for t, d in zip(tap, a["dilations"], strict=True)), 0),
            size=(x.type.shape[0], *counts, channels),
            step=(1, *a["strides"], 1),
        )  # fmt: skip
        pieces.append(m.write.reshape(piece, (rows, 1, channels)))
    return m.joined(pieces, 1)


@rule("conv-of-patches", "conv")
def conv_of_patches(op: Op, context: Context) -> Outcome:
    """conv(x, w) -> matmul(patches(x), w), for other types and weights known only at run time"""
    refusal = _not_here(op)
    if refusal is not None:
        return refusal
    weight, groups = op.operands[1], op.attrs["groups"]
    kernel = _static(weight.type.shape[2:])
    if kernel is None:
        return Refusal("the kernel's size is symbolic")
    taps = int(np.prod(kernel, dtype=np.int64))
    outputs, depth = weight.type.shape[:2]
    each = outputs // groups

    def action(rw: Rewriter) -> list[Value]:
        m = _Movements(rw)
        image = _patches(m, op, kernel)
        if taps > 1:  # read by every output channel: worth laying out once
            image = rw.value("materialize", [image])
        rows = image.type.shape[0]
        split = (groups, each, depth, taps)
        if depth == 1:
            w = m.weights(weight, split, (3, 0, 1, 2), (1, taps, groups, each))
            x = m.write.cast(m.write.reshape(image, (rows, taps, groups, 1)), op.type.dtype)
            terms = m.write("mul", x, m.write.cast(w, op.type.dtype))
            total = m.write.reduce("reduce_sum", terms, [1])
        else:
            inner = mul(depth, taps)
            w = m.weights(weight, split, (0, 3, 2, 1), (groups, inner, each))
            x = m.write.reshape(image, (rows, taps, groups, depth))
            x = m.write.reshape(m.turned(x, (2, 0, 1, 3)), (groups, rows, inner))
            if groups == 1:
                x, w = m.write.reshape(x, (rows, inner)), m.write.reshape(w, (inner, each))
            total = rw.value("matmul", [x, w], out=op.attrs.get("out"))
            if groups > 1:
                total = m.turned(total, (1, 0, 2))
        last = bool(op.attrs.get("channels_last"))
        counts = op.type.shape[1:-1] if last else op.type.shape[2:]
        out = m.write.reshape(total, (op.type.shape[0], *counts, outputs))
        return [m.as_asked(op, out)]

    return action


def _stuffed(m: _Movements, x: Value, axis: int, stride: int) -> Value:
    """``stride`` - 1 zeros between the elements along ``axis``."""
    shape = x.type.shape
    if stride == 1:
        return x
    x = m.write.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    x = m.padded(x, axis + 1, 0, stride - 1)
    full = mul(shape[axis], stride)
    x = m.write.reshape(x, (*shape[:axis], full, *shape[axis + 1 :]))
    return m.part(x, axis, 0, add(full, 1 - stride))


@rule("transposed-conv-as-conv", "conv_transpose")
def transposed_as_conv(op: Op, context: Context) -> Outcome:
    """conv_transpose(x, w) -> conv(x with zeros in between, flipped w)"""
    refusal = _not_here(op)
    if refusal is not None:
        return refusal
    weight, a = op.operands[1], op.attrs
    kernel = _static(weight.type.shape[2:])
    if kernel is None:
        return Refusal("the kernel's size is symbolic")
    spatial, groups = len(kernel), a["groups"]
    channels, each = weight.type.shape[:2]

    def action(rw: Rewriter) -> list[Value]:
        m = _Movements(rw)
        x = m.channels_last(op)
        for i, stride in enumerate(a["strides"]):
            x = _stuffed(m, x, i + 1, stride)
        reach = [d * (k - 1) for d, k in zip(a["dilations"], kernel, strict=True)]
        split = (groups, channels // groups, each, *kernel)
        perm = (0, 2, 1, *range(3, 3 + spatial))
        final = (mul(each, groups), channels // groups, *kernel)
        w = m.weights(weight, split, perm, final, range(2, 2 + spatial))
        attrs = {
            "strides": (1,) * spatial,
            "dilations": a["dilations"],
            "pads_lo": tuple(r - p for r, p in zip(reach, a["pads_lo"], strict=True)),
            "pads_hi": tuple(
                r - p + e for r, p, e in zip(reach, a["pads_hi"], a["output_padding"], strict=True)
            ),
            "groups": groups,
            "has_bias": False,
            "channels_last": True,
        }
        if a.get("out"):
            attrs["out"] = a["out"]
        return [m.as_asked(op, rw.op("cuvil.conv", [x, w], attrs).result)]

    return action


RULES: list[Rule] = [conv_of_patches, transposed_as_conv]
