"""The weights of an interpolation along an axis whose sizes are symbolic: a table that each call
computes in f64. Known sizes have theirs as constants (byte_resize, table_sampling)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuvil.frontends.formula import Term
from cuvil.frontends.torch_export.call import Call
from cuvil.ir.core import Value
from cuvil.ir.types import F64, I32, I64
from cuvil.sym.expr import Dim


@dataclass(frozen=True)
class Axis:
    """``size`` inputs and ``out`` outputs; ``factor`` is what the caller said, if anything."""

    size: Dim
    out: Dim
    factor: float | None
    corners: bool


def _number(c: Call, size: Dim) -> Term:
    return Term(c.e, c.as_value(size, F64))


def _line(c: Call, size: Dim, axis: int) -> Term:
    shape: list[Dim] = [1, 1]
    shape[axis] = size
    return Term(c.e, c.e.op("iota", shape=tuple(shape), axis=axis, dtype=F64))


def _scale(c: Call, axis: Axis) -> Term:
    """How many inputs lie between two outputs (area_pixel_compute_scale)."""
    size, out = _number(c, axis.size), _number(c, axis.out)
    if axis.corners:
        return (out > 1).where((size - 1) / (out - 1).map("max", 1), 0.0)
    if axis.factor:
        return size.lift(1 / float(axis.factor))
    return size / out


def _keys(x: Term, a: float) -> Term:
    """Keys' cubic."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return (x < 1).where(near, (x < 2).where(far, 0.0))


def antialiased(c: Call, axis: Axis, cubic: bool) -> Value:
    """[out, size] f64, as table_sampling has it for known sizes."""
    scale = _scale(c, axis)
    wide = scale.map("max", 1)
    support = wide * (2.0 if cubic else 1.0)
    centre = (_line(c, axis.out, 0) + 0.5) * scale
    place = _line(c, axis.size, 1)
    first = (centre - support + 0.5).map("trunc")
    last = (centre + support + 0.5).map("trunc")
    distance = abs((place - centre + 0.5) / wide)
    weight = _keys(distance, -0.5) if cubic else (1 - distance).map("max", 0)
    row = ((first <= place) & (place < last)).where(weight, 0.0)
    total = Term(c.e, c.e.op("reduce_sum", row.value, axes=(1,), keepdims=True))
    return total.equals(0).where(0.0, row / total).value


def plain(c: Call, axis: Axis, cubic: bool) -> Value:
    """[out, size] f64 without antialiasing; edges repeat."""
    scale, line = _scale(c, axis), _line(c, axis.out, 0)
    place = line * scale if axis.corners else (line + 0.5) * scale - 0.5
    place = place if cubic else place.map("max", 0)
    low = place.map("floor")
    column, most = _line(c, axis.size, 1), _number(c, axis.size) - 1
    total: Term | None = None
    for tap in range(-1, 3) if cubic else range(2):
        distance = abs(place - low - tap)
        weight = _keys(distance, -0.75) if cubic else (1 - distance).map("max", 0)
        at = (low + tap).map("max", 0).map("min", most)
        part = at.equals(column).where(weight, 0.0)
        total = part if total is None else total + part
    assert total is not None
    return total.value


def whole_weights(c: Call, axis: Axis, table: Value) -> tuple[Value, Value]:
    """A table as whole numbers, [out, size] i32, and the power of two that stands for 1: with as
    many bits as fit 16 with their sign. Where the sizes are equal torch copies."""
    e = c.e
    same = _number(c, axis.size).equals(_number(c, axis.out))
    unit = _line(c, axis.out, 0).equals(_line(c, axis.size, 1)).cast(F64)
    exact = same.where(unit, Term(e, table))
    top = Term(e, e.op("reduce_max", exact.value, axes=(0, 1), keepdims=False))
    powers = np.left_shift(1, np.arange(22))
    tried = Term(e, e.weight(powers[1:].astype(np.float64)))
    fits = (tried * top + 0.5).map("trunc") < float(1 << 15)
    bits = e.op("reduce_sum", fits.cast(I64).value, axes=(0,), keepdims=False)
    power = e.op("gather", e.weight(powers.astype(np.int32)), bits, axis=0)
    half = (exact < 0).where(exact.lift(-0.5), exact.lift(0.5))
    whole = (exact * Term(e, power).cast(F64) + half).map("trunc")
    return whole.cast(I32).value, power


def product_along(c: Call, x: Value, axis: int, table: Value) -> Value:
    """The last axis (3) or the one before it (2) of images times a table [out, size]."""
    if axis == 3:
        return c.e.op("matmul", x, table, trans_b=True)
    return c.e.op("matmul", table, x)
