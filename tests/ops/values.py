"""Shapes, element values and the record of one generated call of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int64", "int32", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")
# Rank 0 to 6; sizes 0, 1, odd, and beyond a vector.
SHAPES: tuple[tuple[int, ...], ...] = (
    (), (1,), (0,), (7,), (67,), (3, 0, 2), (2, 1, 5), (5, 33), (2, 3, 4, 5), (1, 2, 1, 3, 2),
    (2, 1, 2, 2, 1, 3),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One call of an operator: its operands and attributes."""

    arrays: tuple[Array, ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.arrays)
        shown = {k: v for k, v in self.attrs.items() if not hasattr(v, "array")}
        return f"({shapes}) {shown}"


def case(*arrays: Array, **attrs: Any) -> Case:
    """A case whose operands can't be written to."""
    kept = []
    for array in arrays:
        copy = np.array(array)
        copy.flags.writeable = False
        kept.append(copy)
    return Case(tuple(kept), attrs)


def specials(dtype: str) -> Array:
    """The values of a dtype that break careless code."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        info = np.finfo(dtype)
        values = [
            np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5,
            info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal, info.eps,
        ]  # fmt: skip
        return np.array(values, dtype)
    if kind == "b":
        return np.array([False, True])
    limits = np.iinfo(dtype)
    small = [0, 1, 2, 3] if kind == "u" else [0, 1, -1, 2, -2, 3]
    return np.array([*small, limits.min, limits.max, limits.max - 1], dtype)


def plain(rng: Rng, shape: Sequence[int], dtype: str, spread: float = 3.0) -> Array:
    """Ordinary values: normal floats, small integers (so that there are ties), bools."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.asarray(rng.standard_normal(shape) * spread).astype(dtype)
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    return np.asarray(rng.integers(0 if kind == "u" else -5, 9, shape)).astype(dtype)


def hostile(rng: Rng, shape: Sequence[int], dtype: str) -> Array:
    """Ordinary values, and a third of them special."""
    base = plain(rng, shape, dtype)
    wild = rng.choice(specials(dtype), shape)
    return np.where(rng.random(shape) < 0.33, wild, base).astype(dtype)


def tied(rng: Rng, shape: Sequence[int], dtype: str) -> Array:
    """Few different values, NaN and infinities among the floats."""
    kind = np.dtype(dtype).kind
    few: list[float] = [0, 1, 2] if kind != "f" else [0.0, -0.0, 1.0, 1.0, -np.inf, np.inf, np.nan]
    weights = None if kind != "f" else np.array([4, 4, 4, 4, 1, 1, 1]) / 19
    return np.asarray(rng.choice(np.array(few), shape, p=weights)).astype(dtype)


def unusual(rng: Rng, shape: Sequence[int], dtype: str) -> Array:
    """Ordinary values with a NaN and an infinity somewhere, for sums that should show them."""
    x = plain(rng, shape, dtype)
    flat = x.reshape(-1)
    if flat.size and x.dtype.kind == "f":
        flat[rng.integers(flat.size)] = np.inf
        flat[rng.integers(flat.size)] = np.nan
    return x
