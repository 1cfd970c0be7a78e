"""Whether outputs are what torch gives: number, shape, dtype, and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from cuvil.frontends.torch_export.weights import to_numpy
from tools.opinfo.samples import UNFILLED, Sample

Array = np.ndarray[Any, Any]
# (of the output's scale, of each element): some units of rounding of what is computed in.
_TOLERANCES = {"float64": (1e-7, 1e-6), "float32": (1e-5, 1e-4), "float16": (2e-3, 2e-3)}
_NARROW = (2e-2, 2e-2)


# Operators that give positions, any of which will do where values are equal: the place of ``dim``
# among their arguments after the tensor.
_POSITIONS = {"topk": 1, "kthvalue": 1, "sort": 0, "argsort": 0, "median": 0, "nanmedian": 0,
              "mode": 0}  # fmt: skip


def difference(
    sample: Sample, expected: Sequence[torch.Tensor], actual: Sequence[Array]
) -> str | None:
    """What is wrong with the outputs of one call, or None."""
    operator = sample.operator
    if len(expected) != len(actual):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for place, (tensor, have) in enumerate(zip(expected, actual, strict=True)):
        want = to_numpy(tensor)
        if have.shape != want.shape:
            return f"output {place}: shape {have.shape} instead of {want.shape}"
        if have.dtype != want.dtype:
            return f"output {place}: dtype {have.dtype} instead of {want.dtype}"
        if operator not in UNFILLED:
            problem = values_differ(want, np.asarray(have))
            if problem and operator in _POSITIONS and have.dtype == np.int64:
                problem = problem if _picks_differ(sample, want, have) else None
            if problem:
                return f"output {place}: {problem}"
    return None


def _picks_differ(sample: Sample, want: Array, have: Array) -> bool:
    """Whether two arrays of positions along an axis pick different elements of the input, or one
    picks an element twice where the operator gives each once."""
    value, args, kwargs = sample.arguments()
    if kwargs.get("stable"):
        return True
    place = _POSITIONS[sample.operator]
    axis = kwargs.get("dim", args[place] if place < len(args) else -1)
    x = to_numpy(value)
    if x.ndim != want.ndim:  # the axis was reduced, or there was none
        x = x.reshape(-1) if want.ndim == 0 else x
        want, have = (np.expand_dims(a, axis if x.ndim > 1 else 0) for a in (want, have))
    if x.ndim == 0 or ((have < 0) | (have >= x.shape[axis])).any():
        return True
    picked = [np.take_along_axis(x, a, axis) for a in (want, have)]
    once = sample.operator in ("topk", "sort", "argsort")
    doubled = once and bool((np.diff(np.sort(have, axis), axis=axis) == 0).any())
    return doubled or values_differ(*picked) is not None


def values_differ(want: Array, have: Array) -> str | None:
    """The worst element, or None where all are close. NaN equals NaN, infinities by sign."""
    if want.size == 0:
        return None
    if want.dtype.kind in "biu":
        wrong = want != have
        return _worst(want, have, wrong.astype(np.float64)) if wrong.any() else None
    of_scale, of_each = _TOLERANCES.get(want.dtype.name, _NARROW)
    with np.errstate(all="ignore"):
        w, h = want.astype(np.float64), have.astype(np.float64)
        finite = np.isfinite(w)
        scale = float(np.abs(w[finite]).max()) if finite.any() else 0.0
        gap = np.where((w == h) | (np.isnan(w) & np.isnan(h)), 0.0, np.abs(w - h))
        excess = gap - of_scale * scale - of_each * np.where(finite, np.abs(w), 0.0)
        excess = np.where(np.isnan(excess), np.inf, excess)
    return _worst(want, have, excess) if (excess > 0).any() else None


def _worst(want: Array, have: Array, excess: Array) -> str:
    at = tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
    count = int((excess > 0).sum())
    return f"{have[at]} instead of {want[at]} at {list(at)} ({count} of {want.size} differ)"
