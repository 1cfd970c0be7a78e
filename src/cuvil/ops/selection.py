"""Operators that choose: rows in order, boxes that don't overlap better ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import BF16, F16, F32, I64, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext
from cuvil.ops.numeric import comparable, concrete
from cuvil.sym.expr import mul


def _row_order_infer(
    ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs
) -> list[TensorType]:
    if types[0].rank != 2:
        raise InvalidModelError(f"row_order needs a matrix, got {types[0]}")
    dtype = types[0].dtype
    if dtype.is_narrow or dtype in (F16, BF16):
        raise InvalidModelError(f"row_order is not defined for {dtype}")
    return [TensorType((types[0].shape[0],), I64)]


def _row_order_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    """One stable sort for each column, the last column first."""
    x = comparable(np.asarray(arrays[0]))
    order = np.arange(x.shape[0])
    for column in reversed(range(x.shape[1])):
        order = order[np.argsort(x[order, column], kind="stable")]
    return [order.astype(np.int64)]


def _row_order_cost(
    operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs
) -> Cost:
    return Cost(mul(operands[0].elements, 4))


def _nms_infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    boxes, scores, *numbers = types
    if boxes.rank != 3 or scores.rank != 3:
        raise InvalidModelError(f"nms: boxes {boxes} and scores {scores} do not fit")
    wanted = (F32, F32, I64, F32, F32)
    if [t.dtype for t in types] != list(wanted) or any(t.rank for t in numbers):
        raise InvalidModelError("nms needs f32 boxes and scores, and three single numbers")
    ctx.require(boxes.shape[2], "==", 4, "nms: the numbers of a box")
    ctx.same(boxes.shape[0], scores.shape[0], "nms: batches")
    ctx.same(boxes.shape[1], scores.shape[2], "nms: boxes")
    ctx.require(attrs["limit"], ">=", 0, "nms: how many boxes")
    lead = scores.shape[:2]
    return [TensorType((*lead, attrs["limit"]), I64), TensorType(lead, I64)]


def _corners(boxes: Array, center: bool) -> Array:
    """Lower and upper corner of each box: [N, 2, 2]."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if center:
        half = second / np.float32(2)
        return np.stack([first - half, first + half], axis=1)
    return np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)


def _overlap(a: Array, b: Array, threshold: np.float32) -> bool:
    """Whether two boxes' common area is more than this share of their joint area."""
    sides = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
    if not (sides > 0).all():
        return False
    common = sides[0] * sides[1]
    first, second = (c[1] - c[0] for c in (a, b))
    areas = first[0] * first[1], second[0] * second[1]
    joint = areas[0] + areas[1] - common
    if areas[0] <= 0 or areas[1] <= 0 or joint <= 0:
        return False
    return bool(common / joint > threshold)


def _nms_reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    boxes, scores = (np.asarray(a) for a in arrays[:2])
    most, iou, low = int(arrays[2]), np.float32(arrays[3]), np.float32(arrays[4])
    picked, count = (np.zeros(concrete(t), np.int64) for t in results)
    with np.errstate(all="ignore"):
        for batch, kind in np.ndindex(*count.shape):
            corners = _corners(boxes[batch], attrs.get("center", False))
            row = scores[batch, kind]
            order = np.argsort(-row, kind="stable")
            if attrs.get("has_low", False):
                order = order[row[order] > low]
            kept: list[int] = []
            for i in order:
                if len(kept) >= min(most, picked.shape[2]):
                    break
                if not any(_overlap(corners[i], corners[j], iou) for j in kept):
                    kept.append(int(i))
            picked[batch, kind, : len(kept)] = kept
            count[batch, kind] = len(kept)
    return [picked, count]


def _nms_cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    return Cost(mul(operands[1].elements, 8))


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.row_order", "kernel", _row_order_infer, _row_order_reference, (1, 1),
        cost=_row_order_cost,
        doc="The rows of a matrix in lexicographic order, as i64 positions. Equal rows keep their"
        " order; NaN is the largest value.",
    ),
    OpDef(
        "cuvil.nms", "kernel", _nms_infer, _nms_reference, (5, 5),
        {"limit": "dim", "center": "bool?", "has_low": "bool?"}, cost=_nms_cost,
        doc="boxes [B, N, 4], scores [B, C, N], the most boxes a class may keep, the share of"
        " overlap beyond which a box is dropped, the score that must be exceeded (if has_low):"
        " positions [B, C, limit] of the boxes kept, best first, then 0; and how many they are."
        " A NaN score is the least. center: boxes are center and size, not two corners.",
    ),
]  # fmt: skip
