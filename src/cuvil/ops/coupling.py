"""Probabilities of classes from those of pairs of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvil.errors import InvalidModelError
from cuvil.ir.types import F32, F64, TensorType
from cuvil.ops.base import Array, Attrs, Cost, OpDef, ShapeContext
from cuvil.ops.numeric import narrow_to
from cuvil.sym.expr import mul


def _infer(ctx: ShapeContext, types: Sequence[TensorType], attrs: Attrs) -> list[TensorType]:
    x, k = types[0], attrs["classes"]
    if x.dtype not in (F32, F64) or x.rank != 2 or k < 2:
        raise InvalidModelError(f"couple_pairs takes a matrix of f32 or f64 of pairs, not {x}")
    ctx.same(x.shape[1], k * (k - 1) // 2, "couple_pairs: pairs of classes")
    return [x.with_shape((x.shape[0], k))]


def _reference(
    arrays: Sequence[Array], attrs: Attrs, results: Sequence[TensorType]
) -> list[Array]:
    pairs, k = np.asarray(arrays[0], np.float64), attrs["classes"]
    r = np.zeros((len(pairs), k, k))
    upper = np.triu_indices(k, 1)
    r[:, upper[0], upper[1]] = pairs
    r[:, upper[1], upper[0]] = 1 - pairs
    turned = np.swapaxes(r, 1, 2)
    q = -turned * r
    q[:, np.arange(k), np.arange(k)] = (turned * turned).sum(2)
    p = np.full((len(pairs), k), 1.0 / k)
    live = np.arange(len(pairs))
    with np.errstate(all="ignore"):
        for _ in range(max(100, k)):
            part = np.einsum("nij,nj->ni", q[live], p[live])
            whole = (p[live] * part).sum(1)
            keep = ~(np.abs(part - whole[:, None]).max(1, initial=0.0) < 0.005 / k)
            live, part, whole = live[keep], part[keep], whole[keep]
            if not len(live):
                break
            p[live] = _sweep(q[live], p[live], part, whole)
    return [narrow_to(p, results[0])]


def _sweep(q: Array, p: Array, part: Array, whole: Array) -> Array:
    """One step for each class in turn."""
    for t in range(p.shape[1]):
        own = q[:, t, t]
        step = (whole - part[:, t]) / own
        p[:, t] += step
        whole = (whole + step * (step * own + 2 * part[:, t])) / (1 + step) ** 2
        part = (part + step[:, None] * q[:, t]) / (1 + step)[:, None]
        p = p / (1 + step)[:, None]
    return p


def _cost(operands: Sequence[TensorType], results: Sequence[TensorType], attrs: Attrs) -> Cost:
    """Some ten rounds."""
    return Cost(mul(operands[0].shape[0], 40 * attrs["classes"] ** 2))


DEFS: list[OpDef] = [
    OpDef(
        "cuvil.couple_pairs", "kernel", _infer, _reference, (1, 1), {"classes": "int"},
        "accumulated", _cost,
        doc="[N, pairs] -> [N, classes]: the probabilities that best fit those of the pairs (i, j),"
        " i < j (Wu, Lin, Weng 2004, second method; libsvm's stopping rule).",
    ),
]  # fmt: skip
